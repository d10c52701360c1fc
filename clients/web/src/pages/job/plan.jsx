// What was left to the daemon, what it chose and why.
import { count, duration, isOver, number } from "../../format.js";
import { CENTRES, ESTIMATORS, listed, planningNow, PRECONDITIONS, settingName, seldom } from "../../planwords.js";
import { ProgressBar } from "../../ui/meter.jsx";

export const isPlanned = (job) => job.plan?.state !== "pending";

export function Plan({ job }) {
  const { plan } = job;
  if (!plan) return null;
  return (
    <section class="card plan" aria-label="Plan">
      <h2>Plan</h2>
      {plan.state === "pending" ? <Pending job={job} /> : <Ready plan={plan} />}
    </section>
  );
}

function Pending({ job }) {
  const now = planningNow(job);
  const names = (job.plan.auto ?? []).map(settingName);
  return (
    <>
      <p role="status">{now ? <><b>Planning:</b> {now}.</> : isOver(job) ? "The job ended before it was made." : "Made before the first iteration."}</p>
      {now && <ProgressBar value={null} tone="planning" label="Planning" />}
      {names.length > 0 && <p class="dim">Left to the daemon: {listed(names)}.</p>}
    </>
  );
}

const gradientOf = ({ estimator, centre } = {}) => (estimator === "control_variate" ? `${ESTIMATORS[estimator]} around ${CENTRES[centre] ?? "the centre"}` : ESTIMATORS[estimator] ?? estimator);
const stepOf = (step) => (typeof step === "number" ? number(step, 3) : Array.isArray(step) ? "one for each parameter" : step === "auto" || step?.kind === "auto" ? "adapted during warm-up" : "a schedule");
const countOf = (n) => (typeof n === "number" ? count(n) : n);

const ROWS = [
  ["step_size", (c) => stepOf(c.step_size)], ["gradient.estimator", (c) => gradientOf(c.gradient)], ["precondition", (c) => PRECONDITIONS[c.precondition] ?? c.precondition],
  ["batch_size", (c) => `${countOf(c.batch_size)} ${seldom(c.gradient)}`], ["iterations", (c) => countOf(c.iterations)], ["warmup", (c) => countOf(c.warmup)], ["thin", (c) => countOf(c.thin)], ["chains", (c) => countOf(c.chains)],
];

function Ready({ plan }) {
  const { chosen = {}, why = [], auto = [] } = plan;
  const met = plan.target_met;
  return (
    <>
      <dl class="facts-grid">
        {ROWS.map(([name, show]) => [name, show(chosen)]).filter(([, text]) => text !== undefined && text !== null).map(([name, text]) => (
          <div key={name}><dt>{settingName(name)}{!auto.includes(name) && name !== "chains" && " (given)"}</dt><dd>{text}</dd></div>
        ))}
      </dl>
      {why.length > 0 && <ul class="why">{why.map((line, i) => <li key={i}>{line}</li>)}</ul>}
      {met !== undefined && <p><b class={met ? "text-good" : "text-warn"}>{met ? "Within the target:" : "Not within the target:"}</b> {targetOf(plan)}.</p>}
      <Details plan={plan} />
    </>
  );
}

// "expected error of sds 0.011 of 0.02, of means 0.008 of 0.02; 2450 effective draws"
function targetOf({ target = {}, checks = {} }) {
  const against = (name, key) => (typeof checks[key] === "number" ? `${name} ${number(checks[key], 2)}${typeof target[key] === "number" ? ` of ${number(target[key], 2)}` : ""}` : null);
  const errors = [against("of sds", "sd_error"), against("of means", "mean_error")].filter(Boolean);
  const draws = typeof checks.ess === "number" ? `about ${count(checks.ess)} effective draws of the slowest coordinate` : null;
  return [errors.length ? `expected error ${errors.join(", ")}` : null, draws].filter(Boolean).join("; ") || "not measured";
}

const known = (facts) => facts.filter(([, value]) => typeof value === "number");

function Details({ plan }) {
  const { centre, checks = {} } = plan;
  const facts = known([
    ["Noise of the plain gradient", checks.noise_plain, (x) => number(x, 2), "at a typical point, over what the step size tolerates"],
    ["with control variates", checks.noise_control, (x) => number(x, 2), "the same noise, of the differences from the centre"],
    ["Iterations per effective draw", checks.autocorrelation, (x) => number(x, 3), "of the slowest coordinate"],
    ["One iteration", checks.iteration_seconds, (x) => `${number(x * 1e6, 3)} µs`, "of one chain"],
    ["One chain", checks.seconds, duration, "expected processor time"],
  ]);
  return (
    <details>
      <summary>What it rests on</summary>
      {centre && <Centre centre={centre} />}
      {typeof checks.energy === "number" && <Energy checks={checks} />}
      {facts.length > 0 && <dl class="facts-grid">{facts.map(([name, value, show, title]) => <div key={name} title={title}><dt>{name}</dt><dd>{show(value)}</dd></div>)}</dl>}
    </details>
  );
}

function Centre({ centre }) {
  const { converged, steps, passes, seconds, log_density: density, gradient_norm: norm } = centre;
  return (
    <p><b>Centre:</b> {converged ? "found" : <span class="text-warn">not found exactly</span>} after {count(steps)} steps and {count(passes)} passes over the data, {duration(seconds)};
      log density {number(density, 7)}, gradient {number(norm, 2)}.</p>
  );
}

// The same in a short run at the chosen step size and at half of it: what they differ by is the bias.
export function Energy({ checks }) {
  const { energy, energy_half: half, energy_mcse: error } = checks;
  return (
    <p><b>Energy:</b> |u|²/d is {number(energy, 4)} on average in a short run{typeof half === "number" && <>, and {number(half, 4)} at half the step size: {number(energy - half, 2)}{typeof error === "number" && <> ± {number(error, 2)}</>} is what the step size costs</>}.
      <span class="dim"> It is 1 for a normal posterior sampled exactly.</span></p>
  );
}
