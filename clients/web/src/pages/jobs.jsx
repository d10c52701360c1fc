// The list of jobs, updated live.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { act, actionsFor } from "../actions.js";
import { api } from "../api.js";
import { ago, count, duration, modelName, percent, samplerName, time } from "../format.js";
import { eventClock, paused, putJobs, useEvents } from "../live.js";
import { planningNow } from "../settingnames.js";
import { makeHash, navigate, setQuery, useQuery } from "../router.js";
import { jobs, session, tick, ticked, useStore } from "../store.js";
import { Button } from "../ui/button.jsx";
import { Menu } from "../ui/menu.jsx";
import { ProgressBar } from "../ui/meter.jsx";
import { EssText, RhatText } from "../ui/numbers.jsx";
import { Empty, Failure, Loading } from "../ui/states.jsx";
import { VirtualTable } from "../ui/table.jsx";
import { Level, StateMark, Tag } from "../ui/tag.jsx";

const PAGE = 100;
const STATES = ["active", "queued", "running", "paused", "succeeded", "failed", "cancelled"];

// The ids of a filtered list, page by page; the jobs themselves are in the store.
function useJobList(query) {
  const key = JSON.stringify(query);
  const [list, setList] = useState({ ids: null, next: null, error: null });
  const refs = useRef({ request: 0, timer: 0, key: "" });

  const load = useCallback(async (cursor) => {
    const mine = ++refs.current.request;
    const sentAt = eventClock();
    try {
      // A reload covers the rows loaded before, so that the scroll position stays.
      const had = refs.current.key === key && !cursor ? refs.current.count || 0 : 0;
      const page = await api.get("/v1/jobs", { ...JSON.parse(key), limit: Math.max(PAGE, Math.min(500, had)), cursor });
      if (mine !== refs.current.request) return;
      putJobs(page.items, sentAt);
      refs.current.key = key;
      setList((old) => {
        const ids = page.items.map((job) => job.id);
        const all = cursor ? [...old.ids, ...ids.filter((id) => !old.ids.includes(id))] : ids;
        refs.current.count = all.length;
        return { ids: all, next: page.next, error: null };
      });
    } catch (error) {
      if (mine === refs.current.request && error.name !== "AbortError") setList((old) => ({ ...old, error }));
    }
  }, [key]);

  const soon = useCallback(() => {
    refs.current.timer ||= setTimeout(() => {
      refs.current.timer = 0;
      if (!paused()) load();
    }, 700);
  }, [load]);

  useEffect(() => {
    setList((old) => ({ ...old, error: null }));
    load();
    return () => {
      clearTimeout(refs.current.timer);
      refs.current.timer = 0;
    };
  }, [load]);
  useEvents((type, data) => {
    const fresh = data.id && !jobs.get().byId[data.id];
    if (type === "reset" || type === "poll" || fresh || data.deleted !== undefined || (type === "job.state" && query.state)) soon();
  });
  return { ...list, more: () => list.next && load(list.next), reload: () => load() };
}

function ProgressCell({ job }) {
  const p = job.progress;
  if (!p) return <span class="dim">{job.state === "queued" ? job.reason : "–"}</span>;
  const planning = planningNow(job);
  if (planning) return <span class="progress-cell" title={`planning: ${planning}`}><ProgressBar value={null} tone="planning" label={`Planning of ${job.name}`} /><small>planning</small></span>;
  const active = job.state === "running" || job.state === "queued";
  const left = active && p.eta_seconds !== null ? `≈ ${duration(p.eta_seconds)}` : percent(p.fraction);
  return (
    <span class="progress-cell" title={`${count(p.iteration)} of ${count(p.total)} iterations of all chains${active && p.eta_seconds !== null ? `; about ${duration(p.eta_seconds)} left` : ""}`}>
      <ProgressBar value={p.fraction} tone={job.state} label={`Progress of ${job.name}`} /><small>{left}</small>
    </span>
  );
}

function Tick({ id, name }) {
  const on = useStore(ticked, (t) => t.ids.includes(id));
  return <input type="checkbox" checked={on} aria-label={`Compare ${name}`} title="Select for comparison" onChange={(e) => tick(id, e.currentTarget.checked)} />;
}

function Actions({ job, trash, gone }) {
  const items = actionsFor(job, { trash }).map(({ verb, label, danger }) => ({
    label, danger, run: async () => (await act(verb, job)) && gone(),
  }));
  return items.length ? <Menu label={`Actions on ${job.name}`} items={items} /> : null;
}

const elapsed = (job) => (job.progress?.elapsed_seconds ? duration(job.progress.elapsed_seconds) : "–");
const href = (job) => makeHash(`/jobs/${job.id}`);

function columnsOf(trash, onTag, gone) {
  return [
    { key: "tick", label: "", width: "1.75rem", render: (j) => <Tick id={j.id} name={j.name} /> },
    { key: "state", label: "State", width: "6.2rem", render: (j) => <span title={j.reason}><StateMark state={j.state} /></span> },
    { key: "name", label: "Name", width: "minmax(9rem, 2.4fr)", render: (j) => <NameCell job={j} onTag={onTag} /> },
    { key: "owner", label: "Owner", width: "minmax(3.5rem, .5fr)", render: (j) => j.owner },
    { key: "model", label: "Model", width: "minmax(6rem, .8fr)", render: (j) => <span title={modelName(j.request)}>{modelName(j.request)}</span> },
    { key: "sampler", label: "Sampler", width: "minmax(7.5rem, 1.1fr)", render: (j) => <span title={samplerName(j.request)}>{samplerName(j.request)}</span> },
    { key: "progress", label: "Progress", width: "minmax(8.5rem, 1fr)", render: (j) => <ProgressCell job={j} /> },
    { key: "rhat", label: "R-hat", title: "Largest R-hat of all saved parameters; below 1.01 the chains agree", width: "3.2rem", align: "right", render: (j) => <RhatText value={j.summary?.max_rhat} /> },
    { key: "ess", label: "ESS", title: "Smallest bulk effective sample size; 400 or more give stable quantiles", width: "3.8rem", align: "right", render: (j) => <EssText value={j.summary?.min_ess_bulk} /> },
    { key: "mixing", label: "Mixing", title: "Whether the chains agree with each other (R-hat, ESS)", width: "4.4rem", align: "indent", render: (j) => <Verdict text={j.verdict} level={j.mixing} /> },
    { key: "bias", label: "Bias", title: "Whether the chains sample the right distribution (certificate, gradient noise, step size, Stein discrepancy, energy, reference)", width: "6.6rem", render: (j) => <Verdict text={j.verdict} level={j.bias} /> },
    { key: "elapsed", label: "Elapsed", width: "4.4rem", align: "right", render: (j) => <span title={`submitted ${time(j.created_at)}`}>{elapsed(j)}</span> },
    { key: "actions", label: "", width: "2.2rem", render: (j) => <Actions job={j} trash={trash} gone={gone} /> },
  ];
}

// A level of the verdict; the tooltip shows the whole sentence.
function Verdict({ text, level }) {
  if (!level || level === "unknown") return <span class="dim" title={text || "No verdict"}>{level ? "?" : "–"}</span>;
  return <span title={text}><Level level={level} /></span>;
}

function NameCell({ job, onTag }) {
  return (
    <span class="name-cell">
      <a href={href(job)} class="clip" title={job.name}>{job.name}</a>
      {job.tags?.map((t) => <Tag key={t} name={t} onClick={() => onTag(t)} />)}
    </span>
  );
}

function CompactJob({ job, trash, gone }) {
  return (
    <div class="job-card">
      <div><Tick id={job.id} name={job.name} /><a class="clip" href={href(job)}>{job.name}</a><StateMark state={job.state} /><Actions job={job} trash={trash} gone={gone} /></div>
      <div class="dim clip">{modelName(job.request)} · {samplerName(job.request)} · {job.owner} · {ago(job.created_at)}</div>
      <div><ProgressCell job={job} /><span>R-hat <RhatText value={job.summary?.max_rhat} /></span><span>ESS <EssText value={job.summary?.min_ess_bulk} /></span></div>
    </div>
  );
}

// Typing is debounced before it goes into the URL.
function Search() {
  const [q] = useQuery("q");
  const [text, setText] = useState(q);
  const timer = useRef(0);
  useEffect(() => setText(q), [q]);
  const input = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ q: value }), 250);
  };
  return <input type="search" placeholder="Search name or id" aria-label="Search name or id" value={text} onInput={(e) => input(e.currentTarget.value)} />;
}

function Filters({ seen }) {
  const [state, setState] = useQuery("state");
  const [owner, setOwner] = useQuery("owner");
  const [model, setModel] = useQuery("model");
  const [sampler, setSampler] = useQuery("sampler");
  const [tag, setTag] = useQuery("tag");
  const [trash, setTrash] = useQuery("trash");
  const options = (list, now) => [...new Set([...list, ...(now ? [now] : [])])].sort();
  return (
    <div class="filters" role="search">
      <Search />
      <Select label="State" value={state} onChange={setState} options={STATES} all="any state" />
      <Select label="Owner" value={owner} onChange={setOwner} options={[["all", "all users’ jobs"]]} all="my jobs" />
      <Select label="Model" value={model} onChange={setModel} options={options(seen.models, model)} all="any model" />
      <Select label="Sampler" value={sampler} onChange={setSampler} options={options(seen.samplers, sampler)} all="any sampler" />
      {(seen.tags.length > 0 || tag) && <Select label="Tag" value={tag} onChange={setTag} options={options(seen.tags, tag)} all="any tag" />}
      <label class="check"><input type="checkbox" checked={trash === "true"} onChange={(e) => setTrash(e.currentTarget.checked ? "true" : "")} /><span>Trash</span></label>
    </div>
  );
}

function Select({ label, value, onChange, options, all }) {
  return (
    <select aria-label={label} value={value} onChange={(e) => onChange(e.currentTarget.value)} class={value ? "set" : ""}>
      <option value="">{all}</option>
      {options.map((o) => (Array.isArray(o) ? <option key={o[0]} value={o[0]}>{o[1]}</option> : <option key={o} value={o}>{o}</option>))}
    </select>
  );
}

function Ticked() {
  const ids = useStore(ticked, (t) => t.ids);
  if (!ids.length) return null;
  return (
    <span class="ticked">
      <Button kind="primary" onClick={() => navigate("/compare", { jobs: ids.join(",") })}>Compare {ids.length}</Button>
      <Button kind="quiet" onClick={() => ticked.set({ ids: [] })}>Clear</Button>
    </span>
  );
}

// Filter values, collected from the jobs fetched so far.
function useSeen(byId) {
  return useMemo(() => {
    const all = Object.values(byId);
    const set = (pick) => [...new Set(all.flatMap(pick))];
    return { models: set((j) => [modelName(j.request)]), samplers: set((j) => [j.request?.sampler?.name ?? []].flat()), tags: set((j) => j.tags || []) };
  }, [Object.keys(byId).length]);
}

export function Jobs() {
  const [state] = useQuery("state");
  const [owner] = useQuery("owner");
  const [model] = useQuery("model");
  const [sampler] = useQuery("sampler");
  const [tag] = useQuery("tag");
  const [q] = useQuery("q");
  const [trash] = useQuery("trash");
  const [study] = useQuery("study"); // jobs of a study are in no other list
  const query = { state, owner, model, sampler, tag, q, trash, study };
  const list = useJobList(query);
  const byId = useStore(jobs, (s) => s.byId);
  const me = useStore(session, (s) => s.me);
  const seen = useSeen(byId);
  const inTrash = trash === "true";
  const rows = (list.ids || []).map((id) => byId[id]).filter((job) => job && (inTrash || !job.deleted));
  const latest = useRef(list);
  latest.current = list;
  const gone = useCallback(() => latest.current.reload(), []);
  const columns = useMemo(() => columnsOf(inTrash, (t) => setQuery({ tag: t }, {}), gone), [inTrash, me]);
  const compact = useCallback((j) => <CompactJob job={j} trash={inTrash} gone={gone} />, [inTrash, me]);
  const filtered = Object.values(query).some(Boolean);
  const more = useCallback((from, to) => to >= rows.length - 20 && list.more(), [rows.length, list.next]);

  return (
    <div class="page fill">
      <div class="bar-top"><h1>Jobs</h1>{study && <OfStudy id={study} />}<Filters seen={seen} /><span class="group end"><Ticked />
        {me?.role !== "viewer" && <a class="button primary" href="#/new">New job</a>}</span>
      </div>
      {list.ids === null && !list.error && <Loading what="jobs" />}
      {list.error && (list.ids === null || list.error.status !== 0) && <Failure error={list.error} retry={list.reload} />}
      {list.ids !== null && (
        <VirtualTable label="Jobs" fill columns={columns} count={rows.length} row={(i) => rows[i]} rowKey={(j) => j.id} height={34} minWidth="62rem"
          compact={compact} compactHeight={92}
          onRange={more} onOpen={(j) => navigate(`/jobs/${j.id}`)} onToggle={(j) => tick(j.id, !ticked.get().ids.includes(j.id))}
          empty={<NoJobs filtered={filtered} trash={inTrash} viewer={me?.role === "viewer"} />} />
      )}
    </div>
  );
}

function OfStudy({ id }) {
  return <span class="chip"><a href={makeHash(`/studies/${id}`)}>of a study</a><button type="button" aria-label="All jobs" title="All jobs" onClick={() => setQuery({ study: "" })}>×</button></span>;
}

function NoJobs({ filtered, trash, viewer }) {
  if (trash) return <Empty title="The trash is empty">Deleted jobs are kept here for a limited time.</Empty>;
  if (filtered) return <Empty title="No job matches">Remove a filter, or <a href="#/jobs">show all my jobs</a>.</Empty>;
  if (viewer) return <Empty title="You have no jobs"><a href="#/jobs?owner=all">Show all users’ jobs</a></Empty>;
  return <Empty title="No jobs yet"><a href="#/new">Create the first one</a>, or submit a file: <code>barker submit job.json</code>. <a href="#/jobs?owner=all">Show all users’ jobs</a></Empty>;
}
