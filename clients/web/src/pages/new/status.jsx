// Errors of the draft, its estimated cost, and the submit button.
import { bytes, count, duration, plural } from "../../format.js";
import { useResource } from "../../resource.js";
import { Button } from "../../ui/button.jsx";
import { resolvedFor } from "./check.js";
import { isMissing } from "./document.js";

// lineOf(pointer), if given, is the line of the text where the error is.
export function ErrorList({ errors, go, what = "the job", lineOf }) {
  if (!errors.length) return null;
  return (
    <ul class="mistakes-list">
      {errors.map((e) => <li key={e.pointer + e.detail}><button type="button" class="link" onClick={() => go(e.pointer)}>{lineOf?.(e.pointer) && <>line {lineOf(e.pointer)}, </>}<code>{e.pointer || what}</code></button> {e.detail}</li>)}
    </ul>
  );
}

export function Status({ check, doc, broken, go }) {
  if (check.phase === "unknown" && !broken) return <p class="note warn" role="status">Not checked: {check.message}. <Button kind="quiet" class="small" onClick={check.retry}>Try again</Button></p>;
  if (broken || !check.errors.length) return null;
  const missing = check.errors.filter((e) => isMissing(doc, e));
  const wrong = check.errors.filter((e) => !isMissing(doc, e));
  return (
    <div class={check.phase === "checking" ? "waiting checked" : "checked"} role="status">
      <ErrorList errors={wrong} go={go} />
      {missing.length > 0 && <><strong>Missing</strong><ErrorList errors={missing} go={go} /></>}
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
    ["Time", timeOf(estimate), "until the last chain ends, on an idle server; estimated from a short timing run, or the time limit of the target"],
    ["Disk", `${isAutomatic(estimate) ? "at most " : ""}${bytes(estimate.disk_bytes)}`, left === null ? "" : `${bytes(left)} of your quota are left`],
    ["Memory", bytes(estimate.memory_bytes), "chains and data"],
    ["Draws stored", isAutomatic(estimate) ? "automatic" : count(estimate.draws), "all chains, including warm-up"],
    ["Parameters", count(estimate.dimension)],
    ...(estimate.rows ? [["Rows", count(estimate.rows), check.result.precision ? `in ${check.result.precision} precision` : ""]] : []),
    ["Time per iteration", micro(estimate.seconds_per_iteration), "one chain"],
  ];
  return (
    <div class={old ? "waiting checked" : "checked"}>
      {old && <small class="dim">Estimate for the last valid version:</small>}
      <dl class="facts-grid cost">{facts.map(([name, value, title]) => <div key={name} title={title}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {left !== null && estimate.disk_bytes > left / 2 && <p class="note warn">The job needs more than {estimate.disk_bytes > left ? "" : "half of "}the {bytes(left)} left of your quota. Increase thinning, save fewer parameters, or delete jobs.</p>}
    </div>
  );
}

// The length of the job is automatic.
const isAutomatic = (estimate) => estimate.draws === null;

function timeOf({ seconds, seconds_at_most: most }) {
  if (typeof seconds === "number") return `about ${duration(seconds)}`;
  return typeof most === "number" ? `at most ${duration(most)}` : "automatic";
}

const micro = (seconds) => (seconds < 1e-3 ? `${(seconds * 1e6).toPrecision(3)} µs` : duration(seconds));

// [tone, text] of the status beside the button.
function lamp(check, doc, broken) {
  const wrong = check.errors.filter((e) => !isMissing(doc, e)).length;
  if (broken) return ["bad", "invalid JSON"];
  if (check.phase === "checking") return ["wait", "checking…"];
  if (wrong) return ["bad", plural(wrong, "error")];
  if (check.errors.length) return ["wait", "incomplete"];
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
