// ESS versus bias, one point per job.
import { useMemo } from "preact/hooks";
import { Plot } from "../../plot.jsx";
import { useQuery } from "../../router.js";
import { Empty } from "../../ui/states.jsx";

const BIASES = [
  ["bias_mean", "mean", "bias of means (mean over parameters, in sd)"],
  ["bias_variance_ratio", "median", "bias of variances (median of |ratio − 1|)"],
  ["wasserstein", "median", "Wasserstein distance (median, in sd)"],
];

export function pointsOf(jobs, key, how, perSecond) {
  return jobs.map((job, place) => ({ job, place, x: job.reference?.[key]?.[how], y: perSecond ? job.ess_per_second : job.min_ess_bulk }))
    .filter((p) => typeof p.x === "number" && typeof p.y === "number");
}

export function Scatter({ data, reference }) {
  const [key, setKey] = useQuery("bias", "bias_mean");
  const [unit, setUnit] = useQuery("ess", "second");
  const [scale, setScale] = useQuery("scale", "log");
  const [, how, label] = BIASES.find(([k]) => k === key) ?? BIASES[0];
  const log = scale === "log";
  const all = useMemo(() => pointsOf(data.jobs, key, how, unit === "second"), [data, key, how, unit]);
  const series = useMemo(() => all.filter((p) => !log || (p.x > 0 && p.y > 0))
    .map((p) => ({ label: p.job.name || p.job.id, tag: p.job.name || p.job.id, x: [p.x], y: [p.y], color: p.place, dots: 10 })), [all, log]);
  if (!reference) return <Empty title="No reference selected">Bias is measured relative to a reference posterior: select one above. <code>barker reference put NAME --job ID</code> makes one, preferably from a job with an exact sampler such as barker_mh.</Empty>;
  const without = all.filter((p) => !series.some((s) => s.color === p.place));
  return (
    <div class="stack">
      <div class="bar-top"><span class="spring" />
        <select aria-label="Bias" value={key} onChange={(e) => setKey(e.currentTarget.value)}>{BIASES.map(([k, , text]) => <option key={k} value={k}>{text}</option>)}</select>
        <select aria-label="ESS" value={unit} onChange={(e) => setUnit(e.currentTarget.value)}><option value="second">ESS per second</option><option value="all">ESS</option></select>
        <select aria-label="Axes" value={scale} onChange={(e) => setScale(e.currentTarget.value)}><option value="log">logarithmic</option><option value="linear">linear</option></select></div>
      {series.length === 0
        ? <Empty title="No points yet">No job has both an ESS and this bias.</Empty>
        : <div class="plots wide"><Plot title="ESS vs. bias" note="upper left is best" name="compare-ess-bias" height={340} series={series} xLabel={label} yLabel={unit === "second" ? "smallest ESS per second" : "smallest ESS"} logX={log} logY={log} fromZero xPad={0.1} legend={false} /></div>}
      {without.length > 0 && <p class="dim">Not shown: {without.map((p) => p.job.name || p.job.id).join(", ")}. A bias of 0, as of a job that is its own reference, cannot be drawn on a logarithmic axis.</p>}
    </div>
  );
}
