// Traces of the selected parameters, with R-hat and ESS.
import { useMemo, useRef } from "preact/hooks";
import { ess, rhat } from "../../format.js";
import { useVisible } from "../../visibility.js";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { refined } from "../../plotdata.js";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { Failure, Loading, Resource } from "../../ui/states.jsx";
import { CHAINS_SHOWN, ParameterPicker, useSelection } from "./selection.jsx";

// Points per chain: limited by the screen width and the number of chains.
const pointsOf = (chains) => Math.round(Math.max(60, Math.min(1.2 * innerWidth, 1500, 8000 / chains)));

const HEIGHT = 190;

// "1200-3400" in the URL <-> [1200, 3400]
function readZoom(text) {
  const range = /^\d+-\d+$/.test(text) ? text.split("-").map(Number) : null;
  return range?.every(Number.isSafeInteger) && range[0] < range[1] ? range : null;
}

export function mixingNote(row) {
  if (!row) return "";
  return row.rhat === null && row.reason ? row.reason : `R-hat ${rhat(row.rhat)} · ESS ${ess(row.ess_bulk)} bulk, ${ess(row.ess_tail)} tail`;
}

export function Traces({ job }) {
  const { names, set, error, reload } = useSelection(job);
  const [warmup, setWarmup] = useQuery("warmup", "shown");
  const [zoomText, setZoom] = useQuery("zoom");
  const zoom = useMemo(() => readZoom(zoomText), [zoomText]);
  const chains = Number(job.request?.chains) || 1;
  const few = chains > CHAINS_SHOWN ? Array.from({ length: CHAINS_SHOWN }, (_, i) => i + 1) : undefined;
  const query = { chains: few, max_points: pointsOf(few?.length ?? chains), warmup: warmup === "hidden" ? "false" : undefined };
  const onRange = (range) => setZoom(range ? `${Math.floor(range[0])}-${Math.ceil(range[1])}` : "");
  const summary = useResource(names && `/v1/jobs/${job.id}/summary`, { params: names ?? [] }, { job: job.id, atLeast: 5000 });
  const details = useResource(names && `/v1/jobs/${job.id}/diagnostics`, { params: names ?? [], limit: 1 }, { job: job.id, atLeast: 8000 });
  const more = useMemo(() => <Details details={details.data?.details} history={details.data?.history} />, [details.data]); // not rendered again for every zoom
  if (!names) return error ? <Failure error={error} retry={reload} /> : <Loading what="parameters" />;
  const rows = Object.fromEntries((summary.data?.parameters ?? []).map((row) => [row.name, row]));
  return (
    <div class="stack">
      <div class="bar-top"><ParameterPicker names={names} set={set} /><span class="spring" />
        <label class="check"><input type="checkbox" checked={warmup !== "hidden"} onChange={(e) => setWarmup(e.currentTarget.checked ? "shown" : "hidden")} /><span>Warm-up</span></label></div>
      {few && <p class="dim">The plots show chains 1 to {CHAINS_SHOWN} of {chains}; R-hat and ESS use all.</p>}
      <div class="plots wide">{names.map((name, i) => <Trace key={name} first={i === 0} job={job} name={name} query={query} zoom={zoom} onRange={onRange} note={mixingNote(rows[name])} />)}</div>
      {more}
    </div>
  );
}

// Each parameter is fetched separately once it is visible: such a reply is small enough to be parsed in one frame.
function Trace({ job, name, query, zoom, onRange, note, first }) {
  const place = useRef();
  const [seen, visible] = useVisible(place);
  const path = `/v1/jobs/${job.id}/trace`;
  const whole = useResource(seen ? path : null, { params: [name], ...query }, { job: job.id, atLeast: 3000 });
  const detail = useResource(visible && zoom ? path : null, { params: [name], ...query, from: zoom?.[0], to: zoom?.[1] }, { job: job.id, atLeast: 5000 });
  const fine = zoom ? detail.data?.parameters[0] : undefined; // the previous detail stays until the next one arrives
  return (
    <div class="trace" ref={place}>
      {whole.data === null && !whole.error
        ? <figure class="plot"><figcaption><b class="clip">{name}</b></figcaption><Loading what="the trace" /></figure>
        : <Resource of={whole} what="the trace">{(data) => <TracePlot job={job} data={data} fine={fine} zoom={zoom} onRange={onRange} note={note} first={first} />}</Resource>}
    </div>
  );
}

// The whole trace, with the visible range replaced by finer data once they are loaded.
function seriesOf(chain, fine) {
  const detail = fine?.chains.find((c) => c.chain === chain.chain);
  const { x, y } = refined({ x: chain.iteration, y: chain.value }, detail && { x: detail.iteration, y: detail.value });
  return { label: `chain ${chain.chain}`, x, y, color: chain.chain - 1 };
}

function TracePlot({ job, data, fine, zoom, onRange, note, first }) {
  const [parameter] = data.parameters;
  const series = useMemo(() => parameter.chains.map((c) => seriesOf(c, fine)), [parameter, fine]);
  const bands = useMemo(() => (data.warmup && data.warmup_end > 0 ? [{ axis: "x", from: 0, to: data.warmup_end, label: "warm-up" }] : []), [data.warmup, data.warmup_end]);
  return <Plot title={parameter.name} name={`${fileName(parameter.name)}-trace`} note={note} height={HEIGHT} series={series} bands={bands} ignoreBefore={data.warmup_end} xLabel="iteration" group={`${job.id}-trace`} range={zoom} onRange={onRange} legend={first && series.length > 1 && series.length <= 12} />;
}

// Autocorrelation per chain, and R-hat over time per parameter.
function Details({ details, history }) {
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
