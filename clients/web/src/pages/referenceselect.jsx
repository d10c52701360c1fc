// A select of the reference posteriors; `value` is a name, or "" for none.
import { referenceKeys } from "../references.js";
import { useResource } from "../resource.js";

export function ReferenceSelect({ value, onChange }) {
  const references = useResource("/v1/references");
  const names = [...new Set([...referenceKeys(references.data?.items ?? []).map(([key]) => key), ...(value ? [value] : [])])];
  return (
    <select aria-label="Reference" value={value} onChange={(e) => onChange(e.currentTarget.value)}>
      <option value="">no reference</option>{names.map((name) => <option key={name} value={name}>reference: {name}</option>)}
    </select>
  );
}
