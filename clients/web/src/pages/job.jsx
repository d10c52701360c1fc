// The page of one job: progress, verdict, plots, files.
import { useEffect, useRef } from "preact/hooks";
import { hasEnded } from "../format.js";
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
import { Export } from "./job/export.jsx";

const VIEWS = [
  ["overview", "Overview", Overview],
  ["traces", "Traces", Traces, true],
  ["densities", "Densities", Densities, true],
  ["parameters", "Parameters", Parameters, true],
  ["noise", "Noise", Noise, true],
  ["metrics", "Metrics", Metrics, true],
  ["log", "Log", Log],
  ["export", "Request & files", Export],
]; // [key, name, view, whether it needs draws]

const OF_DRAWS = ["traces", "densities", "parameters"]; // need stored draws, not only running moments
const storesNone = (job) => Array.isArray(job.request?.save?.params) && job.request.save.params.length === 0;

// Before the first time slice is saved there are no results to fetch.
export const hasDraws = (job) => (job.progress?.iteration ?? 0) > 0;

function NoDraws({ job }) {
  if (storesNone(job)) return <Empty title="No draws">The job stores no draws (save.params is empty).</Empty>;
  if (hasEnded(job)) return <Empty title="No draws">The job ended before its first draw: {job.reason}.</Empty>;
  return <Empty title="No draws yet">{job.state === "queued" ? `The job is waiting: ${job.reason}.` : job.reason} This page updates automatically.</Empty>;
}

export function Job({ id }) {
  const planning = useRef(false); // progress events do not include the plan
  const loaded = useResource(`/v1/jobs/${id}`, {}, { job: id, on: (type, data) => data.id === id && (type !== "job.progress" || planning.current) });
  const [tab, setTab] = useQuery("tab", "overview");
  useEffect(() => {
    if (loaded.data) putJobs([loaded.data], loaded.sentAt);
  }, [loaded.data]);
  const job = useStore(jobs, (s) => s.byId[id]) ?? loaded.data;
  planning.current = !!job && !isPlanned(job);
  useEffect(() => {
    if (job) document.title = `${job.name} · barkerd`;
  }, [job?.name]);

  if (!job) return loaded.error ? <div class="page"><Failure error={loaded.error} retry={loaded.error.status === 404 ? null : loaded.reload} /><p class="note"><a href="#/jobs">All jobs</a></p></div> : <Loading what="the job" />;
  if (job.deleted) return <div class="page"><Empty title={`“${job.name}” is in the trash`}><a href="#/jobs?trash=true">Restore it from the trash</a>.</Empty></div>;
  const [name, , View, needsDraws] = VIEWS.find(([key]) => key === tab) ?? VIEWS[0];
  return (
    <div class="page job">
      <Head job={job} />
      <Tabs label="Views of the job" tabs={VIEWS} value={name} onChange={(key) => setTab(key, {})} />
      <TabPanel name={name}>{needsDraws && (!hasDraws(job) || (storesNone(job) && OF_DRAWS.includes(name))) ? <NoDraws job={job} /> : <View job={job} />}</TabPanel>
    </div>
  );
}
