// Labelled inputs; `problem` is an error message.
export function Field({ label, hint, problem, children, class: extra = "" }) {
  return (
    <label class={`field ${extra}`}>
      <span>{label}</span>
      {children}
      {hint && !problem && <small>{hint}</small>}
      {problem && <small class="problem" role="alert">{problem}</small>}
    </label>
  );
}

export function TextField({ label, hint, problem, value, onInput, ...rest }) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      <input value={value} aria-invalid={!!problem} onInput={(e) => onInput(e.currentTarget.value)} {...rest} />
    </Field>
  );
}

// options: ["a", "b"] or [["a", "Shown as"]]
export function SelectField({ label, hint, problem, value, onChange, options, ...rest }) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      <select value={value} aria-invalid={!!problem} onChange={(e) => onChange(e.currentTarget.value)} {...rest}>
        {options.map((o) => (Array.isArray(o) ? <option key={o[0]} value={o[0]}>{o[1]}</option> : <option key={o} value={o}>{o}</option>))}
      </select>
    </Field>
  );
}

export function CheckField({ label, hint, checked, onChange, ...rest }) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(e) => onChange(e.currentTarget.checked)} {...rest} />
      <span>{label}</span>{hint && <small>{hint}</small>}
    </label>
  );
}
