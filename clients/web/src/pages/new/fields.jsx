// Fields of the form; each edits one JSON pointer of the document. `form` is made by makeForm (form.js).
import { useState } from "preact/hooks";
import { Field } from "../../ui/field.jsx";
import { readNumber, readText, same, showText } from "./document.js";

// The text of a value. Typed text is kept as typed as long as it means the same value.
function useTyped(value, read, show) {
  const [typed, setTyped] = useState(null);
  return [typed !== null && same(read(typed), value) ? typed : show(value), setTyped];
}

// A text field. read: text -> value (undefined removes it); show: value -> text; or: placeholder until the daemon
// has reported the default.
export function Entry({ form, at, label, hint, read = readText, show = showText, problem = form.problem(at), area = false, or = "", placeholder = form.fallback(at) || or, ...rest }) {
  const [text, setTyped] = useTyped(form.get(at), read, show);
  const input = (event) => {
    setTyped(event.currentTarget.value);
    form.set(at, read(event.currentTarget.value));
  };
  const Input = area ? "textarea" : "input";
  return (
    <Field label={label} hint={hint} problem={problem}>
      <Input value={text} aria-invalid={!!problem} data-at={at} placeholder={placeholder} onInput={input}
        autoComplete="off" spellcheck={false} {...rest} />
    </Field>
  );
}

// words: texts allowed instead of a number; empty: the value of an empty field.
export function NumberEntry({ form, at, problem = form.problem(at), words = [], empty, ...rest }) {
  const value = form.get(at);
  const notNumber = typeof value === "string" && value !== "" && !words.includes(value) ? `“${value}” is not a number${words.length ? `; also allowed: ${words.join(", ")}` : ""}` : null;
  const read = (text) => (words.includes(text.trim()) ? text.trim() : readNumber(text) ?? empty);
  return <Entry form={form} at={at} read={read} problem={notNumber ?? problem} inputMode={words.length ? undefined : "decimal"} {...rest} />;
}

// options: ["a", ["b", "shown as"]]; the values "" and `fallback` remove the field. An unknown value is added to the
// options.
export function Choice({ form, at, label, hint, options, fallback = "", value = form.get(at) ?? fallback, onChange = (v) => form.set(at, v === "" || v === fallback ? undefined : v), problem = form.problem(at), ...rest }) {
  const known = options.map((o) => (Array.isArray(o) ? o : [o, o]));
  const text = showText(value);
  const all = known.some(([key]) => key === text) ? known : [[text, text === "" ? "choose…" : `${text} (unknown)`], ...known];
  return (
    <Field label={label} hint={hint} problem={problem}>
      <select value={text} aria-invalid={!!problem} data-at={at} onChange={(e) => onChange(e.currentTarget.value)} {...rest}>
        {all.map(([key, name]) => <option key={key} value={key}>{name}</option>)}
      </select>
    </Field>
  );
}

// A checkbox. The default is left out of the document.
export function Flag({ form, at, label, hint, fallback = form.defaultOf(at) ?? false }) {
  const value = form.get(at) ?? fallback;
  const problem = form.problem(at);
  return (
    <label class="check flag">
      <input type="checkbox" checked={value === true} data-at={at} aria-invalid={!!problem}
        onChange={(e) => form.set(at, e.currentTarget.checked === fallback ? undefined : e.currentTarget.checked)} />
      <span>{label}{problem ? <small class="problem" role="alert">{problem}</small> : hint && <small>{hint}</small>}</span>
    </label>
  );
}
