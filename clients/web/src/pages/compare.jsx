// Several jobs side by side, and relative to a reference.
import { useState } from "preact/hooks";
import { useResource } from "../resource.js";
import { useQuery } from "../router.js";
import { ticked, useStore } from "../store.js";
import { Button } from "../ui/button.jsx";
import { Empty, Resource } from "../ui/states.jsx";
import { TabPanel, Tabs } from "../ui/tabs.jsx";
import { CompareDensities } from "./compare/densities.jsx";
import { CompareMetrics } from "./compare/metrics.jsx";
import { Scatter } from "./compare/scatter.jsx";
import { CompareTables } from "./compare/tables.jsx";
import { ReferenceSelect } from "./referenceselect.jsx";

const MOST = 8; // the daemon's limit
const VIEWS = [
  ["numbers", "Numbers", CompareTables],
  ["densities", "Densities", CompareDensities],
  ["metrics", "Metrics", CompareMetrics],
  ["scatter", "ESS vs. bias", Scatter],
];

// The compared jobs: those in the URL, or else the selected ones.
function useIds() {
  const [text, setText] = useQuery("jobs");
  const ids = useStore(ticked, (s) => s.ids);
  return [(text ? text.split(",").filter(Boolean) : ids).slice(0, MOST), (next) => setText(next.join(","), {})];
}

export function Compare() {
  const [ids, setIds] = useIds();
  const [reference, setReference] = useQuery("reference");
  const [target, setTarget] = useQuery("target", "0.05");
  const [tab, setTab] = useQuery("tab", "numbers");
  const [params] = useQuery("params");
  const query = { jobs: ids, reference: reference || undefined, target_error: Number(target) > 0 ? target : undefined, params, limit: 200 };
  const compared = useResource(ids.length >= 2 ? "/v1/compare" : null, query, { on: (type, data) => type === "job.state" && ids.includes(data.id), atLeast: 5000 });
  const [name, , View] = VIEWS.find(([key]) => key === tab) ?? VIEWS[0];
  return (
    <div class="page stack compare">
      <div class="bar-top">
        <h1>Compare</h1><AddJob ids={ids} setIds={setIds} /><span class="spring" />
        <ReferenceSelect value={reference} onChange={setReference} />
        <label class="check"><span>Target error (posterior sd)</span>
          <input class="short" type="number" min="0.001" max="10" step="any" value={target} onChange={(e) => setTarget(e.currentTarget.value)} /></label>
      </div>
      {ids.length < 2
        ? <Empty title="Nothing to compare yet">Select 2 to 8 jobs in the list of jobs, or add their ids here. {ids.length === 1 && "One is selected."}</Empty>
        : (
          <Resource of={compared} what="the comparison">
            {(data) => (
              <>
                {data.differs && <p class="note warn">{data.differs.charAt(0).toUpperCase() + data.differs.slice(1)}.</p>}
                <Legend jobs={data.jobs} remove={(id) => setIds(ids.filter((i) => i !== id))} />
                <Tabs label="Views of the comparison" tabs={VIEWS} value={name} onChange={(key) => setTab(key, {})} />
                <TabPanel name={name}><View data={data} reference={reference} /></TabPanel>
              </>
            )}
          </Resource>
        )}
    </div>
  );
}

function AddJob({ ids, setIds }) {
  const [text, setText] = useState("");
  const add = (event) => {
    event.preventDefault();
    const id = text.trim();
    if (id && !ids.includes(id) && ids.length < MOST) setIds([...ids, id]);
    setText("");
  };
  return (
    <form class="choose" onSubmit={add}>
      <input value={text} onInput={(e) => setText(e.currentTarget.value)} placeholder="job id" aria-label="Add a job by its id" spellcheck={false} disabled={ids.length >= MOST} />
      <Button type="submit" class="small" disabled={ids.length >= MOST}>Add</Button>
    </form>
  );
}

// A job's colour is its position, here and in every plot.
function Legend({ jobs, remove }) {
  return (
    <ul class="compare-legend">
      {jobs.map((job, i) => (
        <li key={job.id} class="chip"><i class={`swatch c${(i % 8) + 1}`} aria-hidden="true" /><a href={`#/jobs/${job.id}`}>{job.name || job.id}</a>
          <button type="button" aria-label={`Remove ${job.name || job.id}`} onClick={() => remove(job.id)}>×</button></li>
      ))}
    </ul>
  );
}
