// Densities of the same parameter in each job, with the reference.
import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../../api.js";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { ParameterPicker } from "../job/selection.jsx";
import { Empty, Failure, Loading } from "../../ui/states.jsx";
import { useShown } from "./selection.js";

// Fetches the same route of every job; a job that fails is null, unless all fail.
export function useOfEach(jobs, path, query) {
  const [state, setState] = useState({ data: null, error: null });
  const key = JSON.stringify([jobs.map((j) => [j.id, j.draws]), path, query]);
  useEffect(() => {
    const controller = new AbortController();
    Promise.allSettled(jobs.map((j) => api.get(`/v1/jobs/${j.id}/${path}`, query, { signal: controller.signal }))).then((all) => {
      if (controller.signal.aborted) return;
      const failed = all.find((one) => one.status === "rejected");
      const any = all.some((one) => one.status === "fulfilled");
      setState({ data: any ? all.map((one) => one.value ?? null) : null, error: any ? null : failed?.reason });
    });
    return () => controller.abort();
  }, [key]);
  return state;
}

export function CompareDensities({ data }) {
  const [names, setNames] = useShown(data);
  const each = useOfEach(data.jobs, "density", { params: names, bins: 60 });
  if (names.length === 0) return <Empty title="No common parameters" />;
  return (
    <div class="stack">
      <div class="bar-top"><ParameterPicker names={names} set={setNames} /></div>
      {each.error && <Failure error={each.error} />}
      {!each.data && !each.error && <Loading what="densities" />}
      {each.data && <div class="plots">{names.map((name) => <Overlay key={name} name={name} data={data} each={each.data} />)}</div>}
    </div>
  );
}

const WIDEST = 4; // times the narrowest density

// A very wide density would squeeze the others into a line: then the initial range is limited to a
// neighbourhood of the narrowest.
export function narrowed(series) {
  const spans = series.map((s) => [s.x[0], s.x[s.x.length - 1]]);
  const all = [Math.min(...spans.map((s) => s[0])), Math.max(...spans.map((s) => s[1]))];
  const least = spans.reduce((best, s) => (s[1] - s[0] < best[1] - best[0] ? s : best), all);
  const width = least[1] - least[0];
  if (!(width > 0) || all[1] - all[0] <= WIDEST * width) return null;
  const middle = (least[0] + least[1]) / 2;
  return [Math.max(all[0], middle - (WIDEST / 2) * width), Math.min(all[1], middle + (WIDEST / 2) * width)];
}

function Overlay({ name, data, each }) {
  const series = useMemo(() => each.flatMap((one, i) => {
    const p = one?.parameters.find((q) => q.name === name);
    return p?.density ? [{ label: data.jobs[i].name || data.jobs[i].id, x: p.density.x, y: p.density.y, color: i, width: 2 }] : [];
  }), [each, name]);
  const ref = data.parameters.find((p) => p.name === name)?.jobs.find((j) => j.reference)?.reference;
  const bands = ref && typeof ref.sd === "number" ? [{ axis: "x", from: ref.mean - 1.645 * ref.sd, to: ref.mean + 1.645 * ref.sd, label: "reference, mean ± 1.645 sd", color: "good" }] : [];
  const lines = ref ? [{ axis: "x", at: ref.mean, color: "good" }] : [];
  const [range, setRange] = useState(null);
  const narrow = useMemo(() => narrowed(series), [series]);
  useEffect(() => setRange(narrow), [narrow?.join()]);
  if (series.length === 0) return <figure class="plot"><figcaption><b>{name}</b></figcaption><p class="state">No density</p></figure>;
  return <Plot title={name} name={`compare-${fileName(name)}`} height={210} series={series} bands={bands} lines={lines} xLabel="value" fromZero legend={false} range={range} onRange={setRange}
    note={narrow && range?.join() === narrow.join() ? "wider densities extend beyond this range" : ""} />;
}
