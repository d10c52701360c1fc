// Held-out metrics during the run: per draw, and of the ergodic average of the draws so far.
import { useMemo } from "preact/hooks";
import { number } from "../../format.js";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { useResource } from "../../resource.js";
import { useQuery } from "../../router.js";
import { Empty, Resource } from "../../ui/states.jsx";
import { CHAINS_SHOWN } from "./selection.jsx";

export function Metrics({ job }) {
  const [what, setWhat] = useQuery("curve", "both");
  const points = Math.max(100, Math.min(1000, Math.floor(5000 / (Number(job.request?.chains) || 1))));
  const metrics = useResource(`/v1/jobs/${job.id}/metrics`, { max_points: points }, { job: job.id, atLeast: 4000 });
  return (
    <Resource of={metrics} what="metrics">
      {(data) => (data.names.length === 0 || !data.chains.some((c) => c.iteration.length)
        ? <Empty title="No held-out metrics">{job.request?.data?.test ? "The first value appears shortly after the start." : "Held-out metrics need a test file (data.test)."}</Empty>
        : (
          <div class="stack">
            <div class="bar-top"><span class="spring" /><select aria-label="Curves" value={what} onChange={(e) => setWhat(e.currentTarget.value)}>
              <option value="both">draws and ergodic average</option><option value="draw">draws</option><option value="ergodic">ergodic average</option></select></div>
            <div class="plots wide">{data.names.map((name) => <Curve key={name} name={name} data={data} what={what} warmup={Number(job.request?.warmup) || 0} id={job.id} />)}</div>
          </div>
        ))}
    </Resource>
  );
}

function Curve({ name, data, what, warmup, id }) {
  const series = useMemo(() => data.chains.slice(0, CHAINS_SHOWN).flatMap((c) => {
    const list = [];
    if (what !== "ergodic") list.push({ label: `chain ${c.chain}`, x: c.iteration, y: c.draw[name], color: c.chain - 1, faint: what === "both", width: 0.8 });
    if (what !== "draw") list.push({ label: `chain ${c.chain}, ergodic average`, x: c.iteration, y: c.ergodic[name], color: c.chain - 1, width: 2 });
    return list;
  }), [data, name, what]);
  const last = data.chains.map((c) => c.ergodic[name].at(-1)).filter((v) => typeof v === "number");
  const note = last.length ? `ergodic average ${number(Math.min(...last), 5)}${last.length > 1 ? ` to ${number(Math.max(...last), 5)}` : ""}` : "";
  const bands = useMemo(() => (warmup ? [{ axis: "x", from: 0, to: warmup, label: "warm-up" }] : []), [warmup]);
  return <Plot title={name} name={`${id}-${fileName(name)}`} note={note} height={220} series={series} bands={bands} ignoreBefore={warmup} xLabel="iteration" group={`${id}-metrics`} />;
}
