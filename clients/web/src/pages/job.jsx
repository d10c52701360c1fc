// One job: what it is, how far it is, how far its draws can be trusted.
import { useEffect, useRef } from "preact/hooks";
import { isOver } from "../format.js";
import { putJobs } from "../live.js";
import { useResource } from "../resource.js";
import { useQuery } from "../router.js";
import { jobs, useStore } from "../store.js";
import { Empty, Failure, Loading } from "../ui/states.jsx";
import { TabPanel, Tabs } from "../ui/tabs.jsx";
import { Head } from "./job/head.jsx";
import { Overview } from "./job/overview.jsx";
import { Traces } from "./job/traces.jsx";
import { Densities } from "./job/densities.jsx";
import { Noise } from "./job/noise.jsx";
import { Metrics } from "./job/metrics.jsx";
import { Parameters } from "./job/parameters.jsx";
import { isPlanned } from "./job/plan.jsx";
import { Log } from "./job/log.jsx";
import { Take } from "./job/take.jsx";

const VIEWS = [
  ["overview", "Overview", Overview],
  ["traces", "Traces", Traces, true],
  ["densities", "Densities", Densities, true],
  ["parameters", "Parameters", Parameters, true],
  ["noise", "Noise", Noise, true],
  ["metrics", "Metrics", Metrics, true],
  ["log", "Log", Log],
  ["take", "Request & files", Take],
]; // [key, name, view, whether it needs draws]

const OF_DRAWS = ["traces", "densities", "parameters"]; // not only of what chains keep beside them
const storesNone = (job) => Array.isArray(job.request?.save?.params) && job.request.save.params.length === 0;

// Before the first slice is saved there is no file to ask for.
export const hasDraws = (job) => (job.progress?.iteration ?? 0) > 0;

function NoDraws({ job }) {
  if (storesNone(job)) return <Empty title="No draws">The job was submitted with no parameter to save.</Empty>;
  if (isOver(job)) return <Empty title="No draws">The job ended before its first: {job.reason}.</Empty>;
  return <Empty title="No draws yet">{job.state === "queued" ? `The job waits: ${job.reason}.` : job.reason} This page goes on by itself.</Empty>;
}

export function Job({ id }) {
  const planning = useRef(false); // what is being chosen is not in the events
  const loaded = useResource(`/v1/jobs/${id}`, {}, { job: id, on: (type, data) => data.id === id && (type !== "job.progress" || planning.current) });
  const [tab, setTab] = useQuery("tab", "overview");
  useEffect(() => {
    if (loaded.data) putJobs([loaded.data], loaded.asked);
  }, [loaded.data]);
  const job = useStore(jobs, (s) => s.byId[id]) ?? loaded.data;
  planning.current = !!job && !isPlanned(job);
  useEffect(() => {
    if (job) document.title = `${job.name} · barkerd`;
  }, [job?.name]);

  if (!job) return loaded.error ? <div class="page"><Failure error={loaded.error} retry={loaded.error.status === 404 ? null : loaded.reload} /><p class="note"><a href="#/jobs">All jobs</a></p></div> : <Loading what="the job" />;
  if (job.deleted) return <div class="page"><Empty title={`“${job.name}” is in the trash`}><a href="#/jobs?trash=true">It can be restored there</a> for a while.</Empty></div>;
  const [name, , View, needsDraws] = VIEWS.find(([key]) => key === tab) ?? VIEWS[0];
  return (
    <div class="page job">
      <Head job={job} />
      <Tabs label="Views of the job" tabs={VIEWS} value={name} onChange={(key) => setTab(key, {})} />
      <TabPanel name={name}>{needsDraws && (!hasDraws(job) || (storesNone(job) && OF_DRAWS.includes(name))) ? <NoDraws job={job} /> : <View job={job} />}</TabPanel>
    </div>
  );
}
