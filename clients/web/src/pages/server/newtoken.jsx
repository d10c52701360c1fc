// Dialog that creates a token, and for a new user the account; shows the token once.
import { useState } from "preact/hooks";
import { api } from "../../api.js";
import { time } from "../../format.js";
import { Button, CopyButton } from "../../ui/button.jsx";
import { Dialog } from "../../ui/dialog.jsx";
import { SelectField, TextField } from "../../ui/field.jsx";
import { useFormErrors } from "../../ui/formerrors.js";
import { Mistakes } from "../../ui/states.jsx";

export const ROLES = [["viewer", "viewer: read only"], ["user", "user: can submit jobs"], ["admin", "admin: full access"]];
const LASTS = [["", "until revoked"], ["1", "1 day"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "365 days"]];

// users: accounts to choose from (for admins); if null, the token is for the signed-in user. `user`: the preselected
// account; `fresh`: create a new user.
export function NewToken({ users, user: given, fresh = false, close }) {
  const [form, setForm] = useState({ user: given ?? "", label: "", role: "user", days: fresh ? "" : "90" });
  const [made, setMade] = useState(null);
  const { setError, problem, rest } = useFormErrors();
  const set = (key) => (value) => setForm((old) => ({ ...old, [key]: value }));
  const submit = async (event) => {
    event.preventDefault();
    const body = { label: form.label || undefined, expires_in_days: form.days ? Number(form.days) : undefined, user: form.user || undefined };
    try {
      const role = fresh ? form.role : undefined;
      // The API would create another token for an existing user.
      if (fresh && users.some((u) => u.name === form.user)) throw Object.assign(new Error("exists"), { errors: [{ pointer: "/user", detail: "this user already exists" }] });
      const existing = users?.find((u) => u.name === form.user);
      setMade(await api.post("/v1/tokens", { ...body, role: existing ? existing.role : role }));
    } catch (error) {
      setError(error);
    }
  };
  if (made) return <Secret made={made} close={() => close(true)} />;
  return (
    <Dialog title={fresh ? "New user" : "New token"} onClose={() => close(false)}>
      <form onSubmit={submit} noValidate class="stack">
        {fresh && <TextField label="Name" hint="a–z, 0–9, _ and -; at most 32 characters" value={form.user} onInput={set("user")} problem={problem("/user")} autoFocus autoComplete="off" autoCapitalize="none" spellcheck={false} />}
        {fresh && <SelectField label="Role" value={form.role} onChange={set("role")} options={ROLES} />}
        {!fresh && users && <SelectField label="User" value={form.user} onChange={set("user")} options={users.map((u) => [u.name, `${u.name} (${u.role})`])} problem={problem("/user")} />}
        <TextField label={fresh ? "Label of the first token" : "Label"} hint="where it is used: laptop, cluster, notebook" maxLength={64} value={form.label} onInput={set("label")} problem={problem("/label")} autoFocus={!fresh} />
        <SelectField label="Valid for" value={form.days} onChange={set("days")} options={LASTS} problem={problem("/expires_in_days")} />
        <Mistakes errors={rest("/user", "/label", "/expires_in_days")} />
        <div class="dialog-actions"><Button onClick={() => close(false)}>Cancel</Button><Button type="submit" kind="primary">{fresh ? "Create user" : "Create token"}</Button></div>
      </form>
    </Dialog>
  );
}

// The server stores only a hash: the token cannot be shown again.
function Secret({ made, close }) {
  return (
    <Dialog title={`Token for ${made.user}`} onClose={close}>
      <p>The token is shown only once. It grants the access rights of {made.user} (role {made.role}) {made.expires_at ? `until ${time(made.expires_at)}` : "until it is revoked"}; send it over a secure channel.</p>
      <pre class="code secret" tabIndex={0} aria-label="The token">{made.token}</pre>
      <div class="bar-top"><CopyButton text={made.token} label="Copy token" /><CopyButton text={`export BARKER_URL=${location.origin} BARKER_TOKEN=${made.token}`} label="Copy for a shell" /></div>
      <div class="dialog-actions"><Button kind="primary" onClick={close}>Done</Button></div>
    </Dialog>
  );
}
