// The plan: the settings chosen automatically, and why.
import { count, duration, hasEnded, number } from "../../format.js";
import { CENTRES, ESTIMATORS, joinWords, planningNow, PRECONDITIONS, settingName, oneInText } from "../../settingnames.js";
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
      <p role="status">{now ? <><b>Planning:</b> {now}.</> : hasEnded(job) ? "The job ended before the plan was complete." : "The plan is made before the first iteration."}</p>
      {now && <ProgressBar value={null} tone="planning" label="Planning" />}
      {names.length > 0 && <p class="dim">Chosen automatically: {joinWords(names)}.</p>}
    </>
  );
}

const gradientOf = ({ estimator, centre } = {}) => (estimator === "control_variate" ? `${ESTIMATORS[estimator]} around the ${CENTRES[centre] ?? "centre"}` : ESTIMATORS[estimator] ?? estimator);
const stepOf = (step) => (typeof step === "number" ? number(step, 3) : Array.isArray(step) ? "one per parameter" : step === "auto" || step?.kind === "auto" ? "adapted during warm-up" : "schedule");
const countOf = (n) => (typeof n === "number" ? count(n) : n);

const ROWS = [
  ["step_size", (c) => stepOf(c.step_size)], ["gradient.estimator", (c) => gradientOf(c.gradient)], ["precondition", (c) => PRECONDITIONS[c.precondition] ?? c.precondition],
  ["batch_size", (c) => `${countOf(c.batch_size)} ${oneInText(c.gradient)}`], ["iterations", (c) => countOf(c.iterations)], ["warmup", (c) => countOf(c.warmup)], ["thin", (c) => countOf(c.thin)], ["chains", (c) => countOf(c.chains)],
];

function Ready({ plan }) {
  const { chosen = {}, why = [], auto = [] } = plan;
  const met = plan.target_met;
  return (
    <>
      <dl class="facts-grid">
        {ROWS.map(([name, show]) => [name, show(chosen)]).filter(([, text]) => text !== undefined && text !== null).map(([name, text]) => (
          <div key={name}><dt>{settingName(name)}{!auto.includes(name) && name !== "chains" && " (set in the request)"}</dt><dd>{text}</dd></div>
        ))}
      </dl>
      {why.length > 0 && <ul class="why">{why.map((line, i) => <li key={i}>{line}</li>)}</ul>}
      {met !== undefined && <p><b class={met ? "" : "text-warn"}>{met ? "Target expected to be met:" : "Target not expected to be met:"}</b> {targetOf(plan)}.</p>}
      <Details plan={plan} />
    </>
  );
}

// "expected error: sd 0.011 (target 0.02), mean 0.008 (target 0.02); ESS about 2450"
function targetOf({ target = {}, checks = {} }) {
  const errorText = (name, key) => (typeof checks[key] === "number" ? `${name} ${number(checks[key], 2)}${typeof target[key] === "number" ? ` (target ${number(target[key], 2)})` : ""}` : null);
  const errors = [errorText("sd", "sd_error"), errorText("mean", "mean_error")].filter(Boolean);
  const draws = typeof checks.ess === "number" ? `ESS about ${count(checks.ess)} for the slowest coordinate` : null;
  return [errors.length ? `expected error: ${errors.join(", ")}` : null, draws].filter(Boolean).join("; ") || "not measured";
}

const known = (facts) => facts.filter(([, value]) => typeof value === "number");

function Details({ plan }) {
  const { centre, checks = {} } = plan;
  const facts = known([
    ["Noise of the plain gradient", checks.noise_plain, (x) => number(x, 2), "at a typical point, relative to the tolerance of the step size"],
    ["Noise with control variates", checks.noise_control, (x) => number(x, 2), "the same, for the control-variate gradient"],
    ["Iterations per effective draw", checks.autocorrelation, (x) => number(x, 3), "for the slowest coordinate"],
    ["Time per iteration", checks.iteration_seconds, (x) => `${number(x * 1e6, 3)} µs`, "one chain, on the machine that plans assume"],
    ["CPU time", checks.seconds, duration, "the plan and all chains, on the machine that plans assume"],
  ]);
  return (
    <details>
      <summary>Details</summary>
      {centre && <Centre centre={centre} />}
      {typeof checks.energy === "number" && <Energy checks={checks} />}
      {facts.length > 0 && <dl class="facts-grid">{facts.map(([name, value, show, title]) => <div key={name} title={title}><dt>{name}</dt><dd>{show(value)}</dd></div>)}</dl>}
    </details>
  );
}

function Centre({ centre }) {
  const { converged, steps, passes, seconds, log_density: density, gradient_norm: norm } = centre;
  return (
    <p><b>Centre:</b> {converged ? "converged" : <span class="text-warn">not converged</span>} after {count(steps)} steps and {count(passes)} passes over the data, {duration(seconds)};
      log density {number(density, 7)}, gradient norm {number(norm, 2)}.</p>
  );
}

// Mean |u|²/d in pilot runs at the chosen step size and at half of it; the difference estimates the bias.
export function Energy({ checks }) {
  const { energy, energy_half: half, energy_mcse: error } = checks;
  return (
    <p><b>Energy:</b> the mean of |u|²/d in a pilot run (u: whitened coordinates, d: their number) is {number(energy, 4)}{typeof half === "number" && <>, and {number(half, 4)} at half the step size; the difference {number(energy - half, 2)}{typeof error === "number" && <> ± {number(error, 2)}</>} estimates the bias of the step size</>}.
      <span class="dim"> For a normal posterior sampled exactly it is 1.</span></p>
  );
}
