// Users: roles, quotas, creation, removal. For admins.
import { useState } from "preact/hooks";
import { api } from "../../api.js";
import { bytes, count, percent, time } from "../../format.js";
import { navigate } from "../../router.js";
import { useResource } from "../../resource.js";
import { session, useStore } from "../../store.js";
import { Button } from "../../ui/button.jsx";
import { confirm, Dialog } from "../../ui/dialog.jsx";
import { TextField } from "../../ui/field.jsx";
import { useFormErrors } from "../../ui/formerrors.js";
import { Menu } from "../../ui/menu.jsx";
import { Mistakes, Resource } from "../../ui/states.jsx";
import { toast } from "../../ui/toast.jsx";
import { useQueue } from "./queue.jsx";
import { NewToken, ROLES } from "./newtoken.jsx";

export function Users() {
  const users = useResource("/v1/users", {}, { all: true, on: (type) => type === "job.state", atLeast: 5000 });
  const queue = useQueue();
  const info = useStore(session, (s) => s.info);
  const [open, setOpen] = useState(null); // {kind: new | token | quotas, user}
  const close = (changed) => {
    setOpen(null);
    if (changed) users.reload();
  };
  return (
    <section class="card" aria-label="Users">
      <div class="bar-top"><h2>Users</h2><span class="spring" /><Button kind="primary" disabled={!users.data} onClick={() => setOpen({ kind: "new" })}>New user</Button></div>
      <Resource of={users} what="users">
        {(data) => (
          <div class="scroll-x">
            <table class="plain stacked">
              <thead><tr><th>Name</th><th>Role</th><th class="right">Unfinished jobs</th><th class="right">Stored</th><th class="right">Share of recent use</th><th>Created</th><th /></tr></thead>
              <tbody>{data.items.map((u) => <Row key={u.name} user={u} use={queue.data?.users.find((q) => q.name === u.name)} limits={info?.limits} open={setOpen} reload={users.reload} />)}</tbody>
            </table>
          </div>
        )}
      </Resource>
      {open?.kind === "new" && <NewToken users={users.data.items} fresh close={close} />}
      {open?.kind === "token" && <NewToken users={users.data.items} user={open.user.name} close={close} />}
      {open?.kind === "quotas" && <Quotas user={open.user} limits={info?.limits} close={close} />}
    </section>
  );
}

// "3 of 200"; an individual quota is bold.
const Used = ({ used, most, own, show }) => <>{used !== undefined && `${show(used)} of `}{own ? <strong title="individual quota">{show(most)}</strong> : show(most)}</>;

function Row({ user, use, limits, open, reload }) {
  const me = useStore(session, (s) => s.me?.user);
  const self = user.name === me;
  const own = user.quotas ?? {};
  const attempt = (action) => async () => {
    try {
      await action();
    } catch (error) {
      toast(error.message, "bad");
    }
    reload();
  };
  const role = async (next) => {
    const danger = next === "admin";
    const sure = !danger || (await confirm({ title: `Make ${user.name} an admin?`, text: "Admins can see and change the jobs and tokens of all users.", action: "Make admin", danger }));
    if (sure) await api.post("/v1/users", { name: user.name, role: next });
    if (sure) toast(`${user.name} now has the role ${next}.`);
  };
  const remove = async () => {
    const sure = await confirm({ title: `Remove ${user.name}?`, text: "The user’s tokens stop working at once. A user who owns jobs, uploads, references or studies cannot be removed: delete these first, or revoke only the tokens.", action: "Remove", danger: true });
    if (!sure) return;
    await api.delete(`/v1/users/${user.name}`);
    toast(`${user.name} removed.`);
  };
  const items = [
    { label: "New token…", run: () => open({ kind: "token", user }) },
    { label: "Show tokens", run: () => navigate("/server", { tab: "tokens", user: user.name }) },
    { label: "Show jobs", run: () => navigate("/jobs", { owner: user.name }) },
    ...(user.quotas ? [{ label: "Quotas…", run: () => open({ kind: "quotas", user }) }] : []),
    ...(self ? [] : [{ label: "Remove…", danger: true, run: attempt(remove) }]),
  ];
  return (
    <tr>
      <td class="first">{user.name}{self && <span class="tag">you</span>}</td>
      <td data-th="Role"><select aria-label={`Role of ${user.name}`} key={user.role} value={user.role} disabled={self} title={self ? "you cannot change your own role" : ""} onChange={(e) => attempt(() => role(e.target.value))().then(() => { e.target.value = user.role; })}>{ROLES.map(([r]) => <option key={r} value={r}>{r}</option>)}</select></td>
      <td class="right" data-th="Unfinished jobs"><Used used={user.usage?.active_jobs ?? use?.jobs ?? 0} most={own.active_jobs ?? limits?.active_jobs} own={own.active_jobs} show={count} /></td>
      <td class="right" data-th="Stored"><Used used={user.usage?.stored_bytes} most={own.stored_mb ? own.stored_mb * 2 ** 20 : limits?.stored_bytes} own={own.stored_mb} show={bytes} /></td>
      <td class="right" data-th="Share of recent use">{percent(use?.share ?? 0)}</td>
      <td title={user.created_at} data-th="Created">{time(user.created_at)}</td>
      <td class="right"><Menu label={`Actions on ${user.name}`} items={items} /></td>
    </tr>
  );
}

// Empty fields mean the default.
function Quotas({ user, limits, close }) {
  const [form, setForm] = useState({ active_jobs: String(user.quotas.active_jobs ?? ""), stored_mb: String(user.quotas.stored_mb ?? "") });
  const { setError, problem, rest } = useFormErrors();
  const set = (key) => (value) => setForm((old) => ({ ...old, [key]: value }));
  const submit = async (event) => {
    event.preventDefault();
    const quotas = Object.fromEntries(Object.entries(form).filter(([, text]) => text.trim() !== "").map(([key, text]) => [key, Number.isNaN(Number(text)) ? text : Number(text)]));
    try {
      await api.post("/v1/users", { name: user.name, quotas });
      toast("Saved.");
      close(true);
    } catch (error) {
      setError(error);
    }
  };
  return (
    <Dialog title={`Quotas of ${user.name}`} onClose={() => close(false)}>
      <form onSubmit={submit} noValidate class="stack">
        <TextField label="Unfinished jobs" hint="leave empty for the default" placeholder={limits ? String(limits.active_jobs) : ""} inputMode="numeric" value={form.active_jobs} onInput={set("active_jobs")} problem={problem("/quotas/active_jobs")} autoFocus />
        <TextField label="Stored draws, in MiB" hint="leave empty for the default" placeholder={limits ? String(limits.stored_bytes / 2 ** 20) : ""} inputMode="numeric" value={form.stored_mb} onInput={set("stored_mb")} problem={problem("/quotas/stored_mb")} />
        <Mistakes errors={rest("/quotas/active_jobs", "/quotas/stored_mb")} />
        <div class="dialog-actions"><Button onClick={() => close(false)}>Cancel</Button><Button type="submit" kind="primary">Save</Button></div>
      </form>
    </Dialog>
  );
}
