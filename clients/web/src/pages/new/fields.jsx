// Fields of the form: each is a place in the document. `form` is what makeForm of form.js gives.
import { useState } from "preact/hooks";
import { Field } from "../../ui/field.jsx";
import { readNumber, readText, showText } from "./document.js";

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// The text of a value. What was typed stays as it was typed as long as it means what the document says.
function useTyped(value, read, show) {
  const [typed, setTyped] = useState(null);
  return [typed !== null && same(read(typed), value) ? typed : show(value), setTyped];
}

// A line of text. read: text -> value (undefined removes it); show: value -> text; or: what holds
// where nothing is given, as long as the daemon has not said.
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

// words: what may stand there instead of a number; empty: the value of a field in which nothing stands.
export function NumberEntry({ form, at, problem = form.problem(at), words = [], empty, ...rest }) {
  const value = form.get(at);
  const strange = typeof value === "string" && value !== "" && !words.includes(value) ? `“${value}” is not a number` : null;
  const read = (text) => (words.includes(text.trim()) ? text.trim() : readNumber(text) ?? empty);
  return <Entry form={form} at={at} read={read} problem={strange ?? problem} inputMode={words.length ? undefined : "decimal"} {...rest} />;
}

// options: ["a", ["b", "shown as"]]; the value "" removes it from the document. A value that is not
// among them is shown all the same.
export function Choice({ form, at, label, hint, options, value = form.get(at) ?? "", onChange = (v) => form.set(at, v === "" ? undefined : v), problem = form.problem(at), ...rest }) {
  const known = options.map((o) => (Array.isArray(o) ? o : [o, o]));
  const text = showText(value);
  const all = known.some(([key]) => key === text) ? known : [[text, text === "" ? "choose…" : `${text} (not known)`], ...known];
  return (
    <Field label={label} hint={hint} problem={problem}>
      <select value={text} aria-invalid={!!problem} data-at={at} onChange={(e) => onChange(e.currentTarget.value)} {...rest}>
        {all.map(([key, name]) => <option key={key} value={key}>{name}</option>)}
      </select>
    </Field>
  );
}

// A tick. The default is left out of the document.
export function Flag({ form, at, label, hint, fallback = false }) {
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
