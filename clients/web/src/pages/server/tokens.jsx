// Tokens of the signed-in user; for admins those of all users.
import { useState } from "preact/hooks";
import { api } from "../../api.js";
import { ago, count, time } from "../../format.js";
import { useQuery } from "../../router.js";
import { useResource } from "../../resource.js";
import { session, useStore } from "../../store.js";
import { ActionButton, Button } from "../../ui/button.jsx";
import { confirm } from "../../ui/dialog.jsx";
import { CheckField } from "../../ui/field.jsx";
import { Empty, Resource } from "../../ui/states.jsx";
import { toast } from "../../ui/toast.jsx";
import { endOf } from "./tokenstate.js";
import { NewToken } from "./newtoken.jsx";

const ROWS = 300;

export function Tokens() {
  const me = useStore(session, (s) => s.me);
  const admin = me?.role === "admin";
  const [user, setUser] = useQuery("user");
  const [ended, setEnded] = useQuery("ended");
  const [making, setMaking] = useState(false);
  const tokens = useResource("/v1/tokens", { user: admin ? user : undefined }, { all: true });
  const users = useResource(admin ? "/v1/users" : null, {}, { all: true });
  const close = (made) => {
    setMaking(false);
    if (made) tokens.reload();
  };
  return (
    <section class="card" aria-label="Tokens">
      <div class="bar-top">
        <h2>Tokens</h2>
        {admin && users.data && (
          <select aria-label="User" value={user} onChange={(e) => setUser(e.currentTarget.value)} class={user ? "set" : ""}>
            <option value="">all users</option>{users.data.items.map((u) => <option key={u.name} value={u.name}>{u.name}</option>)}
          </select>
        )}
        <CheckField label="Show revoked and expired" checked={ended === "true"} onChange={(on) => setEnded(on ? "true" : "")} />
        <span class="spring" />
        <Button kind="primary" onClick={() => setMaking(true)}>New token</Button>
      </div>
      <p class="dim">A token is a password for programs and this dashboard. Create one for each computer or program, so that each can be revoked separately.</p>
      <Resource of={tokens} what="tokens">{(data) => <Table tokens={data.items.filter((t) => ended === "true" || !endOf(t))} me={me} admin={admin} reload={tokens.reload} />}</Resource>
      {making && <NewToken users={admin ? users.data?.items ?? [me && { name: me.user, role: me.role }] : null} user={admin ? user || me.user : undefined} close={close} />}
    </section>
  );
}

function Table({ tokens, me, admin, reload }) {
  if (!tokens.length) return <Empty title="No tokens" />;
  const newest = [...tokens].sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
  return (
    <div class="scroll-x">
      <table class="plain stacked">
        <thead><tr>{admin && <th>User</th>}<th>Label</th><th>Id</th><th>Created</th><th>Last used</th><th>Valid until</th><th /></tr></thead>
        <tbody>{newest.slice(0, ROWS).map((t) => <Row key={t.id} token={t} mine={t.id === me?.token_id} admin={admin} reload={reload} />)}</tbody>
      </table>
      {newest.length > ROWS && <p class="dim">and {count(newest.length - ROWS)} older</p>}
    </div>
  );
}

function Row({ token, mine, admin, reload }) {
  const end = endOf(token);
  const revoke = async () => {
    const sure = await confirm({
      title: `Revoke ${token.label ? `“${token.label}”` : token.id}?`, action: "Revoke", danger: true,
      text: mine ? "You are signed in with this token and will be signed out." : `Requests with it will be refused. ${token.used_at ? `It was last used ${ago(token.used_at)}.` : "It has never been used."}`,
    });
    if (!sure) return;
    await api.delete(`/v1/tokens/${token.id}`);
    toast("Revoked.");
    reload();
  };
  return (
    <tr class={end ? "dim" : ""}>
      {admin && <td data-th="User">{token.user}</td>}
      <td class="wrap first">{token.label || <span class="dim">no label</span>}{mine && <span class="tag">current</span>}</td>
      <td class="mono" data-th="Id">{token.id}</td>
      <td title={token.created_at} data-th="Created">{time(token.created_at)}</td>
      <td title={token.used_at ?? ""} data-th="Last used">{token.used_at ? ago(token.used_at) : "never"}</td>
      <td title={token.expires_at ?? ""} data-th="Valid until">{end === "revoked" ? `revoked ${time(token.revoked_at)}` : token.expires_at ? `${time(token.expires_at)}${end ? " (expired)" : ""}` : "no expiry"}</td>
      <td class="right">{!end && <ActionButton class="small" action={revoke} aria-label={`Revoke ${token.label || token.id}`}>Revoke</ActionButton>}</td>
    </tr>
  );
}
