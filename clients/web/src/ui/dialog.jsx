// Dialogs by the browser's own <dialog>: focus stays inside, Escape closes.
import { useEffect, useRef, useState } from "preact/hooks";
import { createStore, useStore } from "../store.js";
import { Button } from "./button.jsx";

export function Dialog({ title, onClose, children, actions }) {
  const ref = useRef();
  useEffect(() => {
    ref.current.showModal();
  }, []);
  return (
    <dialog ref={ref} class="dialog" aria-label={title} onClose={onClose} onCancel={onClose}>
      <h2>{title}</h2>
      <div class="dialog-body">{children}</div>
      <div class="dialog-actions">{actions}</div>
    </dialog>
  );
}

// One dialog at a time, opened from anywhere:
//     if (await confirm({ title: "Delete “x”?", text: "…", action: "Delete", danger: true })) …
//     const answer = await prompt({ title, text, label, value, action, check: (text) => problem | null });
const question = createStore({ open: null });

export function confirm(options) {
  return open({ ...options, input: false });
}

// Resolves to the text, or null if cancelled.
export function prompt(options) {
  return open({ ...options, input: true });
}

function open(options) {
  question.get().open?.resolve(options.input ? null : false);
  return new Promise((resolve) => question.set({ open: { ...options, resolve, key: Math.random() } }));
}

export function Questions() {
  const { open: current } = useStore(question);
  return current ? <Question key={current.key} {...current} /> : null;
}

function Question({ title, text, action = "OK", danger, input, label, value = "", check, resolve }) {
  const [answer, setAnswer] = useState(value);
  const [problem, setProblem] = useState(null);
  const close = (result) => {
    question.set({ open: null });
    resolve(result);
  };
  const submit = (event) => {
    event.preventDefault();
    const wrong = input && check ? check(answer) : null;
    if (wrong) setProblem(wrong);
    else close(input ? answer : true);
  };
  return (
    <Dialog title={title} onClose={() => close(input ? null : false)}>
      <form onSubmit={submit} noValidate>
        {text && <p>{text}</p>}
        {input && (
          <label class="field">
            <span>{label}</span>
            <input autoFocus value={answer} onInput={(e) => setAnswer(e.currentTarget.value)} aria-invalid={!!problem} />
            {problem && <span class="problem" role="alert">{problem}</span>}
          </label>
        )}
        <div class="dialog-actions">
          <Button onClick={() => close(input ? null : false)} autoFocus={!input && danger}>Cancel</Button>
          <Button type="submit" kind={danger ? "danger" : "primary"} autoFocus={!input && !danger}>{action}</Button>
        </div>
      </form>
    </Dialog>
  );
}
