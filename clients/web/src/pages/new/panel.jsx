// What the daemon thinks of the job, what it will cost, and the button that submits it.
import { bytes, count, duration, plural } from "../../format.js";
import { useResource } from "../../resource.js";
import { Button } from "../../ui/button.jsx";
import { resolvedFor } from "./check.js";
import { isMissing } from "./document.js";

function Mistakes({ errors, go }) {
  if (!errors.length) return null;
  return (
    <ul class="mistakes-list">
      {errors.map((e) => <li key={e.pointer + e.detail}><button type="button" class="link" onClick={() => go(e.pointer)}><code>{e.pointer || "the job"}</code></button> {e.detail}</li>)}
    </ul>
  );
}

export function Status({ check, doc, broken, go }) {
  if (check.phase === "unknown" && !broken) return <p class="note warn" role="status">Not checked: {check.message}. <Button kind="quiet" class="small" onClick={check.retry}>Try again</Button></p>;
  if (broken || !check.errors.length) return null;
  const missing = check.errors.filter((e) => isMissing(doc, e));
  const wrong = check.errors.filter((e) => !isMissing(doc, e));
  return (
    <div class={check.phase === "checking" ? "waiting told" : "told"} role="status">
      <Mistakes errors={wrong} go={go} />
      {missing.length > 0 && <><strong>Still needed</strong><Mistakes errors={missing} go={go} /></>}
    </div>
  );
}

export function Cost({ check, doc, broken }) {
  const me = useResource("/v1/me", {}, { on: (type) => type === "job.state", atLeast: 10000 });
  const estimate = check.result?.estimate;
  if (!estimate || !resolvedFor(doc, check.result)) return null;
  const old = check.phase !== "valid" || broken;
  const left = me.data ? Math.max(0, me.data.quotas.stored_mb * 2 ** 20 - me.data.usage.stored_bytes) : null;
  const facts = [
    ["Time", timeOf(estimate), "until the last chain ends, if nobody else works; from a few iterations timed just now, or what the target allows"],
    ["Disk", `${isOpen(estimate) ? "at most " : ""}${bytes(estimate.disk_bytes)}`, left === null ? "" : `you may store ${bytes(left)} more`],
    ["Memory", bytes(estimate.memory_bytes), "chains and data"],
    ["Draws stored", isOpen(estimate) ? "to be chosen" : count(estimate.draws), "of all chains, warm-up included"],
    ["Parameters", count(estimate.dimension)],
    ...(estimate.rows ? [["Rows", count(estimate.rows), check.result.precision ? `in ${check.result.precision} precision` : ""]] : []),
    ["One iteration", micro(estimate.seconds_per_iteration), "of one chain"],
  ];
  return (
    <div class={old ? "waiting told" : "told"}>
      {old && <small class="dim">When it was last valid:</small>}
      <dl class="facts-grid cost">{facts.map(([name, value, title]) => <div key={name} title={title}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {left !== null && estimate.disk_bytes > left / 2 && <p class="note warn">{estimate.disk_bytes > left ? "It does not fit" : "It takes more than half"} into the {bytes(left)} that you may store: thin more, save fewer parameters, or delete jobs.</p>}
    </div>
  );
}

// A job whose length is left to the daemon.
const isOpen = (estimate) => estimate.draws === null;

function timeOf({ seconds, seconds_at_most: most }) {
  if (typeof seconds === "number") return `about ${duration(seconds)}`;
  return typeof most === "number" ? `at most ${duration(most)}` : "to be chosen";
}

const micro = (seconds) => (seconds < 1e-3 ? `${(seconds * 1e6).toPrecision(3)} µs` : duration(seconds));

// [tone, words] of the lamp beside the button.
function lamp(check, doc, broken) {
  const wrong = check.errors.filter((e) => !isMissing(doc, e)).length;
  if (broken) return ["bad", "the JSON cannot be read"];
  if (check.phase === "checking") return ["wait", "checking…"];
  if (wrong) return ["bad", plural(wrong, "mistake")];
  if (check.errors.length) return ["wait", "not complete yet"];
  return check.phase === "valid" ? ["good", `valid, ${timeOf(check.result.estimate)}`] : ["warn", "not checked"];
}

export function SubmitBar({ check, doc, broken, busy, failure, submit }) {
  const [tone, words] = lamp(check, doc, broken);
  return (
    <div class="submit-bar">
      {failure && <p class="note bad" role="alert">{failure}</p>}
      <div class="bar-top">
        <span class={`lamp ${tone}`} role="status"><i aria-hidden="true" />{words}</span>
        <span class="spring" />
        <Button kind="primary" disabled={busy || !!broken} aria-busy={busy} title="Ctrl+Enter" onClick={submit}>{busy ? "Submitting…" : "Submit"}</Button>
      </div>
    </div>
  );
}
