// Densities of the selected parameters, with prior and reference.
import { useMemo } from "preact/hooks";
import { count, number, offBy } from "../../format.js";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { referencePath } from "../../references.js";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { Failure, Loading, Resource } from "../../ui/states.jsx";
import { priorOf } from "./prior.js";
import { ReferenceSelect } from "../referenceselect.jsx";
import { CHAINS_SHOWN, ParameterPicker, useSelection } from "./selection.jsx";

export function Densities({ job }) {
  const { names, set, error, reload } = useSelection(job);
  const [reference, setReference] = useQuery("reference", job.request?.reference ?? "");
  const [perChain, setPerChain] = useQuery("chains", "together");
  const [prior, setPrior] = useQuery("prior", "hidden");
  const density = useResource(names && `/v1/jobs/${job.id}/density`, { params: names ?? [], bins: 60 }, { job: job.id, atLeast: 5000 });
  const summary = useResource(names && reference ? `/v1/jobs/${job.id}/summary` : null, { params: names ?? [], reference }, { job: job.id, atLeast: 5000 });
  const document = useResource(reference ? referencePath(reference) : null);
  const settings = job.request?.model;
  const model = useResource(settings?.name ? `/v1/models/${settings.name}` : null);
  if (!names) return error ? <Failure error={error} retry={reload} /> : <Loading what="parameters" />;
  const rows = Object.fromEntries((summary.data?.parameters ?? []).map((row) => [row.name, row]));
  return (
    <div class="stack">
      <div class="bar-top"><ParameterPicker names={names} set={set} /><span class="spring" />
        <ReferenceSelect value={reference} onChange={setReference} />
        <label class="check"><input type="checkbox" checked={perChain === "apart"} onChange={(e) => setPerChain(e.currentTarget.checked ? "apart" : "together")} /><span>Per chain</span></label>
        {names.some((name) => priorOf(model.data, settings, name)) && <label class="check"><input type="checkbox" checked={prior === "shown"} onChange={(e) => setPrior(e.currentTarget.checked ? "shown" : "hidden")} /><span>Prior</span></label>}
      </div>
      {summary.error && summary.error.status > 0 && <p class="note warn">{summary.error.message}</p>}
      <Resource of={density} what="densities">
        {(data) => <div class="plots">{data.parameters.map((p) => <Density key={p.name} p={p} row={rows[p.name]} band={bandOf(document.data, p.name, rows[p.name])} apart={perChain === "apart"} prior={prior === "shown" ? priorOf(model.data, settings, p.name) : null} />)}</div>}
      </Resource>
    </div>
  );
}

// The 90% interval of a reference: its 5% and 95% quantiles if it has them, else mean ± 1.645 sd.
function bandOf(document, name, row) {
  const listed = Array.isArray(document?.parameters) ? document.parameters.find((p) => p?.name === name) : null;
  const at = Array.isArray(document?.names) ? document.names.indexOf(name) : -1;
  const q5 = listed?.q5 ?? document?.q5?.[at], q95 = listed?.q95 ?? document?.q95?.[at];
  if (typeof q5 === "number" && typeof q95 === "number") return { from: q5, to: q95, mean: row?.reference?.mean ?? listed?.mean ?? document.mean?.[at] };
  const { mean, sd } = row?.reference ?? {};
  return typeof mean === "number" && typeof sd === "number" ? { from: mean - 1.645 * sd, to: mean + 1.645 * sd, mean } : null;
}

function Density({ p, row, band, apart, prior }) {
  const series = useMemo(() => makeSeries(p, apart, prior), [p, apart, prior !== null]);
  const bands = useMemo(() => (band ? [{ axis: "x", from: band.from, to: band.to, label: "reference, 90%", color: "good" }] : []), [band?.from, band?.to]);
  const lines = useMemo(() => (band && typeof band.mean === "number" ? [{ axis: "x", at: band.mean, color: "good" }] : []), [band?.mean]);
  if (!p.density) return <figure class="plot"><figcaption><b>{p.name}</b></figcaption><p class="state">{p.reason ?? "No density"}</p></figure>;
  return <Plot title={p.name} name={`${fileName(p.name)}-density`} note={noteOf(p, row)} height={190} series={series} bands={bands} lines={lines} xLabel="value" fromZero legend={series.length > 1} />;
}

function noteOf(p, row) {
  const r = row?.reference;
  if (r) return `bias: mean ${number(r.bias_mean, 2)} sd, variance ${offBy(r.bias_variance_ratio)}`;
  return `${count(p.draws)} draws${p.left_out ? `, ${count(p.left_out)} not finite` : ""}`;
}

function makeSeries(p, apart, prior) {
  const series = [];
  if (p.density) series.push({ label: "all chains", x: p.density.x, y: p.density.y, color: 0, width: 2, fill: !apart });
  if (apart) series.push(...p.histogram.chains.slice(0, CHAINS_SHOWN).map((c) => ({ label: `chain ${c.chain}`, ...stairs(p.histogram.edges, c.counts), color: c.chain - 1, width: 1, faint: true, steps: true })));
  if (prior && p.density) series.push({ label: "prior", x: p.density.x, y: p.density.x.map(prior), color: "dim", dash: [5, 4], width: 1.5 });
  return series;
}

// Histogram counts as a density.
function stairs(edges, counts) {
  const total = counts.reduce((a, b) => a + b, 0) || 1;
  const x = edges.slice(0, counts.length + 1);
  const y = counts.map((n, i) => n / total / (edges[i + 1] - edges[i] || 1));
  return { x, y: [...y, 0] };
}
