// Short messages that disappear by themselves: toast("Paused."), toast(error.message, "bad").
import { createStore, useStore } from "../store.js";

const toasts = createStore({ list: [] });
let next = 1;

export function toast(text, kind = "") {
  const id = next++;
  toasts.set(({ list }) => ({ list: [...list.slice(-3), { id, text, kind }] }));
  setTimeout(() => dismiss(id), kind === "bad" ? 12000 : 4000);
}

function dismiss(id) {
  toasts.set(({ list }) => ({ list: list.filter((t) => t.id !== id) }));
}

export function Toasts() {
  const { list } = useStore(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {list.map((t) => (
        <div key={t.id} class={`toast ${t.kind}`}>
          <span>{t.text}</span>
          <button type="button" aria-label="Dismiss" onClick={() => dismiss(t.id)}>×</button>
        </div>
      ))}
    </div>
  );
}
