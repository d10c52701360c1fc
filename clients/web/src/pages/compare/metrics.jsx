// Held-out metrics of each job, over iterations or CPU time.
import { useMemo } from "preact/hooks";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { useQuery } from "../../router.js";
import { Empty, Failure, Loading } from "../../ui/states.jsx";
import { useOfEach } from "./densities.jsx";

export function CompareMetrics({ data }) {
  const [xAxis, setXAxis] = useQuery("x", "iterations");
  const [curve, setCurve] = useQuery("curve", "ergodic");
  const each = useOfEach(data.jobs, "metrics", { max_points: 400 });
  if (each.error) return <Failure error={each.error} />;
  if (!each.data) return <Loading what="metrics" />;
  const names = [...new Set(each.data.flatMap((one) => one?.names ?? []))];
  if (names.length === 0) return <Empty title="No held-out metrics">Held-out metrics need a job with a test file (data.test).</Empty>;
  return (
    <div class="stack">
      <div class="bar-top"><span class="spring" />
        <select aria-label="Curves" value={curve} onChange={(e) => setCurve(e.currentTarget.value)}><option value="ergodic">ergodic average</option><option value="draw">draws</option></select>
        <select aria-label="x axis" value={xAxis} onChange={(e) => setXAxis(e.currentTarget.value)}><option value="iterations">over iterations</option><option value="seconds">over CPU time</option></select></div>
      <div class="plots wide">{names.map((name) => <Curves key={name} name={name} data={data} each={each.data} curve={curve} xAxis={xAxis} />)}</div>
    </div>
  );
}

// CPU time is proportional to iterations: all chains of a job cost the same per iteration.
export function curvesOf(data, each, name, curve, xAxis) {
  return each.flatMap((one, i) => {
    const job = data.jobs[i];
    const perIteration = job.iterations > 0 ? job.cpu_seconds / job.iterations : 0;
    const chains = one?.names.includes(name) ? one.chains : [];
    return chains.slice(0, 4).map((c) => {
      const known = c.iteration.map((_, k) => k).filter((k) => c[curve][name][k] !== null); // the ergodic average starts after warm-up
      return {
        label: `${job.name || job.id}, chain ${c.chain}`, color: i, width: 1.5, y: known.map((k) => c[curve][name][k]),
        x: known.map((k) => (xAxis === "seconds" ? c.iteration[k] * perIteration : c.iteration[k])),
      };
    });
  });
}

function Curves({ name, data, each, curve, xAxis }) {
  const series = useMemo(() => curvesOf(data, each, name, curve, xAxis), [each, name, curve, xAxis]);
  return <Plot title={name} name={`compare-${fileName(name)}`} height={240} series={series} xLabel={xAxis === "seconds" ? "CPU seconds per chain" : "iteration"} legend={false} />;
}
