// The selected parameters: those in the URL, or else the worst and the first ones.
import { useState } from "preact/hooks";
import { joinNames, splitNames } from "../../params.js";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { Button } from "../../ui/button.jsx";

// At most this many chains per plot; R-hat and ESS always use all chains.
export const CHAINS_SHOWN = 16;

const LIMIT = 24;
const FIRST = 4;

// {names, set, error, reload}; names is null while they are loading.
export function useSelection(job) {
  const [text, setText] = useQuery("params");
  const given = splitNames(text).slice(0, LIMIT);
  const saved = job.request?.save?.params;
  const known = given.length > 0 || (Array.isArray(saved) && saved.length > 0);
  const first = useResource(known ? null : `/v1/jobs/${job.id}/trace`, { max_points: 10 });
  const set = (names) => setText(joinNames(names), { replace: true });
  if (given.length) return { names: given, set, error: null };
  const names = Array.isArray(saved) && saved.length ? saved : first.data?.parameters.map((p) => p.name);
  if (!names) return { names: null, set, error: first.error, reload: first.reload };
  const worst = job.summary?.worst;
  return { names: [...new Set([...(worst ? [worst] : []), ...names])].slice(0, FIRST), set, error: null };
}

// The selected parameters, with a field to add more.
export function ParameterPicker({ names, set }) {
  const [text, setText] = useState("");
  const add = (event) => {
    event.preventDefault();
    const more = splitNames(text).filter((n) => !names.includes(n));
    if (more.length) set([...names, ...more].slice(-LIMIT));
    setText("");
  };
  return (
    <form class="choose" onSubmit={add}>
      {names.map((name) => (
        <span key={name} class="chip">{name}<button type="button" aria-label={`Remove ${name}`} disabled={names.length === 1} onClick={() => set(names.filter((n) => n !== name))}>×</button></span>
      ))}
      <input value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder="theta[2], U[3,7]" aria-label="Add parameters by name" spellcheck={false} />
      <Button type="submit" class="small">Add</Button>
    </form>
  );
}
