// Making a token: who for, until when; then the secret, once.
import { useState } from "preact/hooks";
import { api } from "../../api.js";
import { time } from "../../format.js";
import { Button, CopyButton } from "../../ui/button.jsx";
import { Dialog } from "../../ui/dialog.jsx";
import { SelectField, TextField } from "../../ui/field.jsx";
import { Mistakes } from "../../ui/states.jsx";

export const ROLES = [["viewer", "viewer: looks"], ["user", "user: also submits"], ["admin", "admin: everything"]];
const LASTS = [["", "until it is revoked"], ["1", "a day"], ["7", "a week"], ["30", "30 days"], ["90", "90 days"], ["365", "a year"]];

// The mistakes of fields, and what has no field.
export function useMistakes() {
  const [error, setError] = useState(null);
  const problem = (pointer) => error?.errors.find((e) => e.pointer.startsWith(pointer))?.detail;
  const rest = (...pointers) => (error ? (error.errors.length ? error.errors.filter((e) => !pointers.some((p) => e.pointer.startsWith(p))) : [{ pointer: "", detail: error.message }]) : []);
  return { setError, problem, rest };
}

// users: names one may choose from (an admin); without them the token is one's own. `user`: chosen
// beforehand; `fresh`: a new user.
export function NewToken({ users, user: given, fresh = false, close }) {
  const [form, setForm] = useState({ user: given ?? "", label: "", role: "user", days: fresh ? "" : "90" });
  const [made, setMade] = useState(null);
  const { setError, problem, rest } = useMistakes();
  const set = (key) => (value) => setForm((old) => ({ ...old, [key]: value }));
  const submit = async (event) => {
    event.preventDefault();
    const body = { label: form.label || undefined, expires_in_days: form.days ? Number(form.days) : undefined, user: form.user || undefined };
    try {
      const role = fresh ? form.role : undefined;
      // A user that exists is not given a second first token by a slip.
      if (fresh && users.some((u) => u.name === form.user)) throw Object.assign(new Error("exists"), { errors: [{ pointer: "/user", detail: "there is a user of that name already" }] });
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
        {fresh && <TextField label="Name" hint="a–z, 0–9, _ and -; up to 32" value={form.user} onInput={set("user")} problem={problem("/user")} autoFocus autoComplete="off" autoCapitalize="none" spellcheck={false} />}
        {fresh && <SelectField label="Role" value={form.role} onChange={set("role")} options={ROLES} />}
        {!fresh && users && <SelectField label="For" value={form.user} onChange={set("user")} options={users.map((u) => [u.name, `${u.name} (${u.role})`])} problem={problem("/user")} />}
        <TextField label={fresh ? "Label of the first token" : "Label"} hint="to know it again: laptop, cluster, notebook" maxLength={64} value={form.label} onInput={set("label")} problem={problem("/label")} autoFocus={!fresh} />
        <SelectField label="Valid" value={form.days} onChange={set("days")} options={LASTS} problem={problem("/expires_in_days")} />
        <Mistakes errors={rest("/user", "/label", "/expires_in_days")} />
        <div class="dialog-actions"><Button onClick={() => close(false)}>Cancel</Button><Button type="submit" kind="primary">{fresh ? "Create" : "Make the token"}</Button></div>
      </form>
    </Dialog>
  );
}

// Only a hash is kept on the server: who closes this without a copy makes another one.
function Secret({ made, close }) {
  return (
    <Dialog title={`Token for ${made.user}`} onClose={close}>
      <p>It is shown once. Hand it over on a safe way; whoever has it can do what {made.user} ({made.role}) can{made.expires_at ? `, until ${time(made.expires_at)}` : ", until it is revoked"}.</p>
      <pre class="code secret" tabIndex={0} aria-label="The token">{made.token}</pre>
      <div class="bar-top"><CopyButton text={made.token} label="Copy the token" /><CopyButton text={`export BARKER_URL=${location.origin} BARKER_TOKEN=${made.token}`} label="Copy for a shell" /></div>
      <div class="dialog-actions"><Button kind="primary" onClick={close}>I have it</Button></div>
    </Dialog>
  );
}
