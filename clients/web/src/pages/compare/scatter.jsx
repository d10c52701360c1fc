// The picture of a sweep: how many effective draws, at what bias.
import { useMemo } from "preact/hooks";
import { Plot } from "../../plot.jsx";
import { useQuery } from "../../router.js";
import { Empty } from "../../ui/states.jsx";

const BIASES = [
  ["bias_mean", "mean", "bias of the means (mean over parameters, in sd)"],
  ["bias_variance_ratio", "median", "bias of the variances (median of |ratio − 1|)"],
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
  if (!reference) return <Empty title="Bias against what?">Choose a reference posterior above: biases are measured against it. A job of the exact sampler barker_mh makes one: <code>barker reference</code>.</Empty>;
  const without = all.filter((p) => !series.some((s) => s.color === p.place));
  return (
    <div class="stack">
      <div class="bar-top"><span class="spring" />
        <select aria-label="Bias" value={key} onChange={(e) => setKey(e.currentTarget.value)}>{BIASES.map(([k, , text]) => <option key={k} value={k}>{text}</option>)}</select>
        <select aria-label="Effective draws" value={unit} onChange={(e) => setUnit(e.currentTarget.value)}><option value="second">ESS per second</option><option value="all">ESS</option></select>
        <select aria-label="Axes" value={scale} onChange={(e) => setScale(e.currentTarget.value)}><option value="log">logarithmic</option><option value="linear">linear</option></select></div>
      {series.length === 0
        ? <Empty title="Nothing to draw">No job has both an effective sample size and this bias yet.</Empty>
        : <div class="plots wide"><Plot title="Effective draws against bias" note="up and to the left is better" name="compare-ess-bias" height={340} series={series} xLabel={label} yLabel={unit === "second" ? "least ESS per second" : "least ESS"} logX={log} logY={log} fromZero xPad={0.1} legend={false} /></div>}
      {without.length > 0 && <p class="dim">Without {without.map((p) => p.job.name || p.job.id).join(", ")}: a bias of 0 has no place on a logarithmic axis. A job that is its own reference has none.</p>}
    </div>
  );
}
