// The verdict with its evidence, progress per chain, R-hat and ESS over time, efficiency, checks.
import { useState } from "preact/hooks";
import { count, duration, ess, hasEnded, number, percent, rhat } from "../../format.js";
import { Plot } from "../../plot.jsx";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { Button } from "../../ui/button.jsx";
import { ProgressBar } from "../../ui/meter.jsx";
import { ESS_FAIR, ESS_GOOD, EssText, RHAT_FAIR, RHAT_GOOD, RhatText } from "../../ui/numbers.jsx";
import { Empty, Resource } from "../../ui/states.jsx";
import { useNarrow } from "../../ui/table.jsx";
import { Level, toneOf } from "../../ui/tag.jsx";
import { Plan } from "./plan.jsx";

export function Overview({ job }) {
  const begun = (job.progress?.iteration ?? 0) > 0;
  const diagnostics = useResource(begun ? `/v1/jobs/${job.id}/diagnostics` : null, { limit: 1 }, { job: job.id, atLeast: 4000 });
  return (
    <div class="stack">
      <Verdict job={job} verdict={diagnostics.data?.verdict} />
      {(!begun || (diagnostics.error && !diagnostics.data)) && <Plan job={job} />}
      <Chains job={job} chains={diagnostics.data?.chains} />
      <Resource of={diagnostics} what="diagnostics">
        {(data) => <><History history={data.history} id={job.id} /><Numbers data={data} job={job} /><Plan job={job} /><Checks data={data} /></>}
      </Resource>
    </div>
  );
}

function Verdict({ job, verdict }) {
  const narrow = useNarrow();
  const sentence = verdict?.sentence ?? job.verdict;
  if (!sentence) return <div class="card verdict"><b>{hasEnded(job) ? "No verdict." : "No verdict yet."}</b> <span class="dim">{hasEnded(job) ? "The job ended before its first draws after warm-up." : "It appears with the first draws after warm-up."}</span></div>;
  const tone = worst(toneOf(verdict?.mixing?.level), toneOf(verdict?.bias?.level));
  return (
    <section class={`card verdict ${tone}`} aria-label="Verdict">
      <p class="sentence">{sentence}</p>
      {verdict && (
        <details open={!narrow}>
          <summary>Evidence</summary>
          <dl class="evidence">
            <dt>Mixing <Level level={verdict.mixing?.level ?? "unknown"} /></dt>
            <dd>{verdict.mixing?.text ?? "–"}</dd>
            <dt>Bias <Level level={verdict.bias?.level ?? "unknown"} /></dt>
            <dd>
              {!verdict.bias?.evidence?.length && (verdict.bias?.text ?? "–")}
              <ul>{verdict.bias?.evidence?.map((e, i) => <li key={i}><Level level={e.level} name={EVIDENCE[e.check] ?? e.check} /> {e.text}</li>)}</ul>
            </dd>
            {verdict.target && <><dt>Target <TargetMark met={verdict.target.met} /></dt><dd>{verdict.target.text}</dd></>}
            {verdict.unknown?.length > 0 && <><dt>Unknown</dt><dd><ul>{verdict.unknown.map((text, i) => <li key={i}>{text}</li>)}</ul></dd></>}
          </dl>
        </details>
      )}
    </section>
  );
}

const EVIDENCE = { certificate: "certificate:", noise: "gradient noise:", energy: "energy:", stein: "Stein:", reference: "reference:", step_size: "step size:", half_step: "half the step size:" };

// Whether the accuracy that was asked for is reached; null before the job has ended.
function TargetMark({ met }) {
  return <span class={`level ${met ? "good" : met === false ? "warn" : "unknown"}`}>{met ? "met" : met === false ? "not met" : "not yet known"}</span>;
}

const RANK = ["good", "unknown", "warn", "bad"]; // from best to worst
const worst = (a, b) => RANK[Math.max(RANK.indexOf(a), RANK.indexOf(b))];

const CHAINS_LISTED = 32;

function Chains({ job, chains }) {
  const [all, setAll] = useState(false);
  const every = job.progress?.chains ?? [];
  if (!every.length) return null;
  const list = all ? every : every.slice(0, CHAINS_LISTED);
  const more = Object.fromEntries((chains ?? []).map((c) => [c.chain, c]));
  const trees = (chains ?? []).some((c) => typeof c.divergences === "number");
  const accepts = (chains ?? []).some((c) => typeof c.acceptance === "number");
  return (
    <section class="card" aria-label="Chains">
      <h2>Chains</h2>
      <div class="scroll-x">
        <table class="plain chains">
          <thead><tr><th>Chain</th><th class="wide">Progress</th><th class="right">Iteration</th><th>Phase</th><th>State</th>{accepts && <th class="right">Acceptance</th>}{trees && <><th class="right" title="transitions after warm-up that diverged">Diverged</th><th class="right" title="transitions after warm-up that ended at the limit of their depth">At depth limit</th></>}<th class="right">CPU time</th></tr></thead>
          <tbody>
            {list.map((c) => (
              <tr key={c.chain}>
                <td><i class="dot" style={{ background: `var(--c${((c.chain - 1) % 8) + 1})` }} />{c.chain}</td>
                <td><ProgressBar value={c.total ? c.iteration / c.total : 0} tone={c.state === "diverged" ? "failed" : c.phase === "done" ? "succeeded" : c.phase} label={`Chain ${c.chain}`} mark={c.total ? (Number(job.request?.warmup) || 0) / c.total : 0} /></td>
                <td class="right">{count(c.iteration)} / {count(c.total)}</td>
                <td>{c.phase === "warmup" ? "warm-up" : c.phase}</td>
                <td class={c.state === "diverged" ? "text-bad" : ""}>{c.state}</td>
                {accepts && <td class="right">{percent(more[c.chain]?.acceptance)}</td>}
                {trees && <><td class={more[c.chain]?.divergences > 0 ? "right text-bad" : "right"}>{count(more[c.chain]?.divergences)}</td><td class="right">{count(more[c.chain]?.tree_limit_hits)}</td></>}
                <td class="right">{duration(more[c.chain]?.cpu_seconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {every.length > list.length && <Button kind="quiet" onClick={() => setAll(true)}>Show all {count(every.length)} chains</Button>}
    </section>
  );
}

// The x axes of the history; the selected one is in the URL.
const AXES = { draws: "draws per chain after warm-up", iterations: "iterations of all chains", seconds: "seconds since the start" };

function History({ history, id }) {
  const [axis, setAxis] = useQuery("history", "iterations");
  const x = history?.[axis];
  if (!x?.length) return <section class="card"><h2>R-hat and ESS over time</h2><Empty title={history ? "No history yet" : "No history"}>{history ? "A point is added every few seconds." : "This job was run by a version of barkerd that stored no history."}</Empty></section>;
  const pick = (key) => (history[key] ?? []).map((v) => v ?? null);
  const last = (key) => pick(key).at(-1);
  return (
    <section aria-label="R-hat and ESS over time">
      <div class="bar-top"><h2>R-hat and ESS over time</h2><span class="spring" />
        <select aria-label="x axis" value={axis} onChange={(e) => setAxis(e.currentTarget.value)}>{Object.entries(AXES).map(([k, v]) => <option key={k} value={k}>{v}</option>)}</select></div>
      <div class="plots">
        <Plot title="Largest R-hat" name={`${id}-rhat`} note={`now ${rhat(last("max_rhat"))}`} xLabel={AXES[axis]} include={[1, RHAT_FAIR]}
          series={[{ label: "largest R-hat", x, y: pick("max_rhat"), width: 1.5, points: x.length < 60 }]}
          lines={[{ at: RHAT_GOOD, label: "1.01: the chains agree", color: "good" }, { at: RHAT_FAIR, label: "1.05", color: "warn" }]} />
        <Plot title="Smallest ESS" name={`${id}-ess`} note={`now ${ess(last("min_ess_bulk"))} bulk, ${ess(last("min_ess_tail"))} tail`} xLabel={AXES[axis]} include={[0, ESS_GOOD]}
          series={[{ label: "bulk", x, y: pick("min_ess_bulk"), width: 1.5, points: x.length < 60 }, { label: "tail", x, y: pick("min_ess_tail"), width: 1.5, dash: [4, 3], points: x.length < 60 }]}
          lines={[{ at: ESS_GOOD, label: "400: stable quantiles", color: "good" }, { at: ESS_FAIR, color: "warn" }]} />
      </div>
    </section>
  );
}

const Fact = ({ name, children, title }) => <div title={title}><dt>{name}</dt><dd>{children}</dd></div>;

function Numbers({ data, job }) {
  const e = data.efficiency ?? {};
  const target = e.cost_to_target;
  return (
    <section class="card" aria-label="Efficiency">
      <h2>Efficiency</h2>
      <dl class="facts-grid">
        <Fact name="Worst parameter">{e.worst ?? job.summary?.worst ?? "–"}</Fact>
        <Fact name="Largest R-hat"><RhatText value={e.max_rhat} /></Fact>
        <Fact name="Smallest bulk ESS"><EssText value={e.min_ess_bulk} /></Fact>
        {e.min_ess_tail !== undefined && <Fact name="Smallest tail ESS"><EssText value={e.min_ess_tail} /></Fact>}
        <Fact name="ESS per second" title={e.reason}>{number(e.ess_per_second, 3)}</Fact>
        <Fact name="ESS per gradient" title={e.reason}>{number(e.ess_per_gradient, 3)}</Fact>
        <Fact name="Gradients, including warm-up">{count(e.gradients)}</Fact>
        <Fact name="CPU time">{duration(e.cpu_seconds)}</Fact>
        {target && <Fact name={`Cost to reach R-hat ${number(target.rhat, 3)}, ESS ${count(target.ess)}`} title={target.reason}>{costOf(target)}</Fact>}
      </dl>
    </section>
  );
}

// The remaining cost to the target, if it can be estimated.
function costOf({ iterations, gradients, seconds }) {
  if (typeof iterations !== "number") return "–";
  if (iterations === 0) return "reached";
  return <>{duration(seconds)} more<span class="dim">, {number(iterations, 2)} iterations, {number(gradients, 2)} gradients</span></>;
}

function Checks({ data }) {
  const { checks, checks_reason: reason } = data;
  if (checks === undefined) return null;
  if (!checks) return <section class="card"><h2>Checks on the full data</h2><p class="dim">{reason ?? "Computed when the job ends."}</p></section>;
  const { ksd, fssd, energy, budget } = checks;
  return (
    <section class="card" aria-label="Checks">
      <h2>Checks on the full data</h2>
      <p class="dim">Full-data gradients and log densities at {count(budget?.draws ?? ksd?.draws ?? energy?.draws)} draws, {duration(budget?.seconds)} CPU time.{checks.reason && ` ${sentence(checks.reason)}`}</p>
      <Certificate certificate={checks.certificate} />
      <dl class="facts-grid">
        <Fact name="Kernel Stein discrepancy" title="an estimate; 0 for exact draws">{ksd?.value === 0 ? "0 (within noise)" : number(ksd?.value, 3)}</Fact>
        <Fact name="KSD p-value" title="for the hypothesis that the draws are independent draws from the target">{number(ksd?.p_value, 2)}</Fact>
        <Fact name="FSSD" title="finite-set Stein discrepancy">{number(fssd?.value, 3)}{fssd?.error != null && <span class="dim"> ± {number(fssd.error, 2)}</span>}</Fact>
        <Fact name="Mean log density">{number(energy?.mean_log_density, 7)}{energy?.mcse != null && <span class="dim"> ± {number(energy.mcse, 2)}</span>}</Fact>
        <Fact name="Log density at the mode" title={energy?.mode_reason}>{number(energy?.mode_log_density, 7)}</Fact>
        <Fact name="Energy ratio" title="2 (mode − mean) / d; 1 for a normal posterior sampled exactly">{number(energy?.ratio, 3)}{energy?.ratio_error != null && <span class="dim"> ± {number(energy.ratio_error, 2)}</span>}</Fact>
        {energy?.whitened && <Whitened energy={energy.whitened} />}
      </dl>
    </section>
  );
}

// Errors of means and sds against the posterior's, bias and Monte-Carlo error together.
function Certificate({ certificate }) {
  if (!certificate) return null;
  const { mean, sd, draws, form, reason } = certificate;
  if (!mean) return <p><b>Not certified:</b> {reason}.</p>;
  return (
    <p title="|error| + 2 standard errors and what a bias of that size could hide, Monte-Carlo error included; to first order, and only for modes that the chains have reached">
      <b>Certified:</b> {boundOf("means", mean, 1, " sd")}; {boundOf("sds", sd, 100, " %")}
      <span class="dim"> (gradients over all data at {count(draws)} draws{form === "diagonal" ? ", by variances alone, which is weaker" : ""})</span>.{reason && ` ${sentence(reason)}`}
    </p>
  );
}

// "means within 0.012 sd (theta[3]), 2 of them not"
function boundOf(what, { certified, parameter, not_resolved: open }, unit, after) {
  if (typeof certified !== "number") return `${what} not`;
  return `${what} within ${number(unit * certified, 2)}${after} (${parameter})${open > 0 ? `, ${count(open)} of them not` : ""}`;
}

// For chains in whitened coordinates; does not assume a normal posterior.
function Whitened({ energy: { mean, mcse, pilot, pilot_mcse: error, z } }) {
  return (
    <>
      <Fact name="|u|²/d of the draws" title="mean squared length in whitened coordinates, per coordinate">{number(mean, 4)}{mcse != null && <span class="dim"> ± {number(mcse, 2)}</span>}</Fact>
      <Fact name="|u|²/d at half the step size" title="in the pilot run of the plan">{number(pilot, 4)}{error != null && <span class="dim"> ± {number(error, 2)}</span>}</Fact>
      <Fact name="Difference" title="in standard errors; above 3 the step size is too large">{typeof z === "number" ? <span class={Math.abs(z) > 3 ? "text-warn" : ""}>{number(z, 2)} standard errors</span> : "–"}</Fact>
    </>
  );
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
