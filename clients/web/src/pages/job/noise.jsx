// Step size relative to the noise tolerance of the sampler, per coordinate.
import { count, number, percent, ratio } from "../../format.js";
import { usePaged } from "../../paged.js";
import { useQuery } from "../../router.js";
import { Meter } from "../../ui/meter.jsx";
import { Failure, Loading } from "../../ui/states.jsx";
import { VirtualTable } from "../../ui/table.jsx";

const num = (key, label, title, render, hint) => ({ key, label, title, width: "minmax(5.5rem, 1fr)", align: "right", render, hint });

// With a dense preconditioner the chains move in whitened coordinates, not in the parameters.
const coordinateOf = (r) => r.coordinate ?? r.name ?? `parameter ${r.index}`;

const COLUMNS = [
  { key: "name", label: "Coordinate", width: "minmax(7rem, 1.4fr)", render: (r) => <code>{coordinateOf(r)}</code> },
  { key: "meter", label: "Step size / tolerance", title: "log scale; the mark in the middle is the largest step size that the noise allows", width: "minmax(8rem, 1.6fr)", render: (r) => <Meter ratio={r.step_ratio} label={`Step size / tolerance of ${coordinateOf(r)}`} /> },
  num("ratio", "Ratio", "step size / tolerance", (r) => <span class={r.step_ratio > 3 ? "text-bad" : r.step_ratio > 1 ? "text-warn" : ""}>{ratio(r.step_ratio)}</span>),
  num("step", "Step size", "mean over chains", (r) => number(r.step_size, 3), (r) => (r.step_size_min !== r.step_size_max ? `${r.step_size_min} to ${r.step_size_max}` : undefined)),
  num("advised", "Tolerance", "largest step size that the noise allows", (r) => number(r.tolerance, 3)),
  num("batch", "Batch needed", "smallest batch size that allows the current step size", (r) => count(r.batch_size_needed)),
  { ...num("beyond", "Beyond tolerance", "share of proposals beyond the noise tolerance", (r) => percent(r.beyond)), width: "minmax(9.5rem, 1fr)" },
  num("inflation", "Variance ratio", "expected variance of the draws / variance of the target; a local estimate", (r) => number(r.variance_ratio, 3)),
  num("tau", "Noise sd", "tau: sd of the gradient noise", (r) => number(r.tau, 3)),
];

export function Noise({ job }) {
  const [order, setOrder] = useQuery("noise", "worst");
  const list = usePaged(`/v1/jobs/${job.id}/diagnostics`, { order: order === "worst" ? "worst" : undefined }, { items: (d) => d.parameters, total: (d) => d.parameters_total, job: job.id, atLeast: 10000 });
  if (list.total === null) return list.error ? <Failure error={list.error} retry={list.reload} /> : <Loading what="noise levels" />;
  const noise = list.first?.noise;
  const reasons = Object.entries(list.first?.reasons ?? {});
  return (
    <div class="stack">
      {noise && <Advice noise={noise} job={job} />}
      {reasons.length > 0 && <ul class="note">{reasons.map(([key, text]) => <li key={key}><code>{key}</code>: {text}</li>)}</ul>}
      <div class="bar-top"><span>{count(list.total)} coordinates{noise?.coordinates_beyond > 0 && <>, {count(noise.coordinates_beyond)} beyond their tolerance</>}</span><span class="spring" />
        <select aria-label="Order" value={order} onChange={(e) => setOrder(e.currentTarget.value)}><option value="worst">largest ratio first</option><option value="declared">declared order</option></select></div>
      <VirtualTable label="Noise tolerance per coordinate" columns={COLUMNS} count={list.total} row={list.row} onRange={list.ensure} minWidth="60rem"
        compact={compactRow} compactHeight={72} />
    </div>
  );
}

function Advice({ noise, job }) {
  const worst = typeof noise.worst === "object" ? noise.worst?.name : noise.worst;
  const tone = noise.step_ratio > 3 ? "bad" : noise.step_ratio > 1 ? "warn" : "";
  return (
    <section class={`card verdict ${tone}`}>
      <p class="sentence">{noise.text ?? noise.reason ?? "The gradient noise is not known yet."}</p>
      {typeof noise.step_ratio === "number" && (
        <dl class="facts-grid">
          <div><dt>Worst coordinate</dt><dd>{worst ?? "–"}</dd></div>
          <div><dt>Step size / tolerance</dt><dd>{ratio(noise.step_ratio)}</dd></div>
          <div><dt>Tolerance (largest step size)</dt><dd>{number(noise.step_size, 3)}</dd></div>
          <div><dt>Batch size for this step size</dt><dd>{count(noise.batch_size)}{typeof job.request?.batch_size === "number" && <span class="dim"> (now {count(job.request.batch_size)})</span>}</dd></div>
          <div><dt>Proposals beyond tolerance</dt><dd>{percent(noise.beyond)}</dd></div>
          <div><dt>Expected variance ratio</dt><dd>{number(noise.variance_ratio, 3)}</dd></div>
        </dl>
      )}
    </section>
  );
}

const compactRow = (r) => <Compact r={r} />;

function Compact({ r }) {
  return (
    <div class="row-card">
      <div><code>{coordinateOf(r)}</code><span class="spring" />{ratio(r.step_ratio)}</div>
      <Meter ratio={r.step_ratio} label="Step size / tolerance" />
      <div class="dim">step size {number(r.step_size, 3)}, tolerance {number(r.tolerance, 3)}, batch needed {count(r.batch_size_needed)}</div>
    </div>
  );
}
