// Sign-in with a token. The token is verified before it is stored, for this tab only.
import { useState } from "preact/hooks";
import { send } from "../api.js";
import { session, signIn, useStore } from "../store.js";
import { Button } from "../ui/button.jsx";
import { TextField } from "../ui/field.jsx";

export function SignIn() {
  const notice = useStore(session, (s) => s.notice);
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);

  async function submit(event) {
    event.preventDefault();
    const text = token.trim();
    if (!text) {
      setProblem("Enter a token; it begins with bk_.");
      return;
    }
    setBusy(true);
    try {
      await send("GET", "/v1/me", { token: text });
      signIn(text);
    } catch (error) {
      setProblem(error.status === 401 ? "The server does not accept this token." : error.message);
      setBusy(false);
    }
  }

  return (
    <main class="signin">
      <form class="card" onSubmit={submit} noValidate>
        <h1>barkerd</h1>
        {notice && <p class="note warn" role="status">{notice}</p>}
        <TextField label="Token" type="password" name="token" autoComplete="off" autoFocus spellcheck={false} value={token}
          onInput={(t) => { setToken(t); setProblem(null); }} problem={problem} placeholder="bk_…" />
        <Button type="submit" kind="primary" disabled={busy}>{busy ? "Signing in…" : "Sign in"}</Button>
        <p class="dim">The token is stored for this tab only. On the server machine, <code>barker open last</code> prints a link
          that signs you in once; an admin creates tokens with <code>barker token add NAME</code>.</p>
      </form>
    </main>
  );
}
