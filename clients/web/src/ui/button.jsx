// Buttons. kind: "" (plain), "primary", "danger", "quiet" (no border).
import { useState } from "preact/hooks";
import { toast } from "./toast.jsx";

export function Button({ kind = "", class: extra = "", type = "button", children, ...rest }) {
  return <button type={type} class={`button ${kind} ${extra}`.trim()} {...rest}>{children}</button>;
}

// Runs an async action; disabled while it runs; errors become a toast.
export function ActionButton({ action, children, disabled, ...rest }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    try {
      await action();
    } catch (error) {
      if (error.name !== "AbortError") toast(error.message, "bad");
    }
    setBusy(false);
  };
  return <Button disabled={busy || disabled} aria-busy={busy} onClick={run} {...rest}>{children}</Button>;
}

// `to` is a hash made by makeHash, or "#/jobs".
export function Link({ to, children, ...rest }) {
  return <a href={to} {...rest}>{children}</a>;
}

export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      toast("The browser blocked copying; select the text instead.", "bad");
    }
  };
  return <Button kind="quiet" class="small" onClick={copy}>{done ? "Copied" : label}</Button>;
}
