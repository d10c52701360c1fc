// Traces of the chosen parameters with all chains, and how each mixes.
import { useMemo } from "preact/hooks";
import { ess, rhat } from "../../format.js";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { Failure, Loading, Resource } from "../../ui/states.jsx";
import { CHAINS_SHOWN, Choose, useChosen } from "./chosen.jsx";

// As many points per chain as make sense on this screen, fewer where there are many chains.
const pointsOf = (chains) => Math.round(Math.max(60, Math.min(1.2 * innerWidth, 1500, 8000 / chains)));

// "1200-3400" in the address <-> [1200, 3400]
const readZoom = (text) => (/^\d+-\d+$/.test(text) ? text.split("-").map(Number) : null);

export function mixingNote(row) {
  if (!row) return "";
  return row.rhat === null && row.reason ? row.reason : `R-hat ${rhat(row.rhat)} · ESS ${ess(row.ess_bulk)} bulk, ${ess(row.ess_tail)} tail`;
}

export function Traces({ job }) {
  const { names, set, error, reload } = useChosen(job);
  const [warmup, setWarmup] = useQuery("warmup", "shown");
  const [zoomText, setZoom] = useQuery("zoom");
  const zoom = useMemo(() => readZoom(zoomText), [zoomText]);
  const chains = job.request?.chains || 1;
  const few = chains > CHAINS_SHOWN ? Array.from({ length: CHAINS_SHOWN }, (_, i) => i + 1) : undefined;
  const query = { params: names ?? [], chains: few, max_points: pointsOf(few?.length ?? chains), warmup: warmup === "hidden" ? "false" : undefined };
  const trace = useResource(names && `/v1/jobs/${job.id}/trace`, query, { job: job.id, atLeast: 3000 });
  const detail = useResource(names && zoom && `/v1/jobs/${job.id}/trace`, { ...query, from: zoom?.[0], to: zoom?.[1] }, { job: job.id, atLeast: 5000 });
  const fine = zoom && detail.data && !detail.stale ? Object.fromEntries(detail.data.parameters.map((p) => [p.name, p])) : {};
  const onRange = (range) => setZoom(range ? `${Math.round(range[0])}-${Math.round(range[1])}` : "");
  const summary = useResource(names && `/v1/jobs/${job.id}/summary`, { params: names ?? [] }, { job: job.id, atLeast: 5000 });
  const details = useResource(names && `/v1/jobs/${job.id}/diagnostics`, { params: names ?? [], limit: 1 }, { job: job.id, atLeast: 8000 });
  if (!names) return error ? <Failure error={error} retry={reload} /> : <Loading what="parameters" />;
  const rows = Object.fromEntries((summary.data?.parameters ?? []).map((row) => [row.name, row]));
  return (
    <div class="stack">
      <div class="bar-top"><Choose names={names} set={set} /><span class="spring" />
        <label class="check"><input type="checkbox" checked={warmup !== "hidden"} onChange={(e) => setWarmup(e.currentTarget.checked ? "shown" : "hidden")} /><span>Warm-up</span></label></div>
      {few && <p class="dim">Drawn: chains 1 to {CHAINS_SHOWN} of {chains}. R-hat and ESS are of all.</p>}
      <Resource of={trace} what="traces">
        {(data) => <div class="plots wide">{data.parameters.map((p, i) => <Trace key={p.name} first={i === 0} job={job} parameter={p} data={data} fine={fine[p.name]} zoom={zoom} onRange={onRange} note={mixingNote(rows[p.name])} />)}</div>}
      </Resource>
      <Details details={details.data?.details} job={job} history={details.data?.history} />
    </div>
  );
}

// The whole trace, with the stretch in sight replaced by a finer one once that is there.
function refined(chain, fine, zoom) {
  const detail = fine?.chains.find((c) => c.chain === chain.chain);
  if (!detail?.iteration.length) return { x: chain.iteration, y: chain.value };
  const before = chain.iteration.findIndex((i) => i >= zoom[0]);
  const after = chain.iteration.findIndex((i) => i > zoom[1]);
  const cut = (list, middle) => [...list.slice(0, before < 0 ? list.length : before), ...middle, ...(after < 0 ? [] : list.slice(after))];
  return { x: cut(chain.iteration, detail.iteration), y: cut(chain.value, detail.value) };
}

function Trace({ job, parameter, data, note, first, fine, zoom, onRange }) {
  const series = useMemo(() => parameter.chains.map((c) => ({ label: `chain ${c.chain}`, ...refined(c, fine, zoom), color: c.chain - 1, width: 0.8 })), [parameter, fine]);
  const bands = useMemo(() => (data.warmup && data.warmup_end > 0 ? [{ axis: "x", from: 0, to: data.warmup_end, label: "warm-up" }] : []), [data.warmup, data.warmup_end]);
  return <Plot title={parameter.name} name={`${fileName(parameter.name)}-trace`} note={note} height={190} series={series} bands={bands} ignoreBefore={data.warmup_end} xLabel="iteration" group={`${job.id}-trace`} range={zoom} onRange={onRange} legend={first && series.length > 1 && series.length <= 12} />;
}

// Autocorrelation per chain, and each parameter's own R-hat over time.
function Details({ details, job, history }) {
  if (!details?.length) return null;
  return (
    <>
      <h2>Autocorrelation and R-hat over time</h2>
      <div class="plots">
        {details.map((d) => (
          <>
            {d.autocorrelation?.length > 0 && <Plot key={`${d.name}-a`} title={`${d.name}: autocorrelation`} name={`${fileName(d.name)}-acf`} height={160} xLabel="lag in stored draws" include={[0, 1]}
              series={d.autocorrelation.slice(0, CHAINS_SHOWN).map((c) => ({ label: `chain ${c.chain}`, x: c.lags.map((_, i) => i), y: c.lags, color: c.chain - 1 }))} lines={[{ at: 0 }]} />}
            {d.history?.rhat?.length > 0 && history && <Plot key={`${d.name}-r`} title={`${d.name}: R-hat over time`} name={`${fileName(d.name)}-rhat`} height={160} xLabel="iterations of all chains" include={[1, 1.05]}
              series={[{ label: "R-hat", x: history.iterations, y: d.history.rhat, width: 1.5, points: history.iterations.length < 60 }]} lines={[{ at: 1.01, label: "1.01", color: "good" }]} />}
          </>
        ))}
      </div>
    </>
  );
}
