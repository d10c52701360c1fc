// The list of studies.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { ago, count, duration, hasEnded, percent, plural, time } from "../format.js";
import { paused, useEvents } from "../live.js";
import { useEvery } from "../resource.js";
import { makeHash, navigate, useQuery } from "../router.js";
import { session, useStore } from "../store.js";
import { Menu } from "../ui/menu.jsx";
import { ProgressBar } from "../ui/meter.jsx";
import { Empty, Failure, Loading } from "../ui/states.jsx";
import { VirtualTable } from "../ui/table.jsx";
import { StateMark } from "../ui/tag.jsx";
import { studyActions } from "./study/actions.js";

const PAGE = 100;
const WAIT_MS = 1500; // between two requests while events arrive

// The list, page by page; fetched again when a job changes its state. More rows stay as they were fetched.
function useStudies(query) {
  const key = JSON.stringify(query);
  const [list, setList] = useState({ items: null, next: null, error: null });
  const refs = useRef({ request: 0, timer: 0 });
  const load = useCallback(async (cursor) => {
    const mine = ++refs.current.request;
    try {
      const page = await api.get("/v1/studies", { ...JSON.parse(key), limit: PAGE, cursor });
      if (mine !== refs.current.request) return;
      setList((old) => {
        const rest = cursor || !old.items ? [] : old.items.slice(PAGE).filter((s) => !page.items.some((t) => t.id === s.id));
        return { items: cursor ? [...old.items, ...page.items] : [...page.items, ...rest], next: rest.length ? old.next : page.next, error: null };
      });
    } catch (error) {
      if (mine === refs.current.request && error.name !== "AbortError") setList((old) => ({ ...old, error }));
    }
  }, [key]);
  useEffect(() => {
    setList({ items: null, next: null, error: null });
    load();
    return () => {
      clearTimeout(refs.current.timer);
      refs.current.timer = 0;
    };
  }, [load]);
  useEvents((type) => {
    if (!["reset", "poll", "job.state", "job.progress"].includes(type)) return;
    refs.current.timer ||= setTimeout(() => {
      refs.current.timer = 0;
      if (!paused() && !document.hidden) load();
    }, WAIT_MS);
  });
  useEvery(3 * WAIT_MS, !!list.items?.some((study) => !hasEnded(study)), load); // one ends a moment after the last event of its jobs
  return { ...list, more: () => list.next && load(list.next), reload: () => load() };
}

export const jobsDone = ({ ended, jobs, failed, under_way: running }) =>
  `${count(ended)} of ${plural(jobs, "job")} ended${failed ? `, ${count(failed)} without success` : ""}${running ? `, ${count(running)} under way` : ""}`;

function ProgressCell({ study }) {
  const p = study.progress, active = ["queued", "running"].includes(study.state);
  return (
    <span class="progress-cell" title={jobsDone(p)}>
      <ProgressBar value={p.fraction} tone={study.state} label={`Progress of ${study.name}`} />
      <small>{active && p.eta_seconds !== null ? `≈ ${duration(p.eta_seconds)}` : percent(p.fraction)}</small>
    </span>
  );
}

const href = (study) => makeHash(`/studies/${study.id}`);

function Actions({ study, changed }) {
  const items = studyActions(study, changed);
  return items.length ? <Menu label={`Actions on ${study.name}`} items={items} /> : null;
}

const columnsOf = (changed) => [
  { key: "state", label: "State", width: "6.4rem", render: (s) => <span title={s.reason}><StateMark state={s.state} /></span> },
  { key: "name", label: "Name", width: "minmax(10rem, 2.4fr)", render: (s) => <a href={href(s)} class="clip" title={s.name}>{s.name}</a> },
  { key: "kind", label: "Kind", width: "5rem", render: (s) => s.kind },
  { key: "owner", label: "Owner", width: "minmax(4rem, .6fr)", render: (s) => s.owner },
  { key: "progress", label: "Progress", width: "minmax(9rem, 1.2fr)", render: (s) => <ProgressCell study={s} /> },
  { key: "jobs", label: "Jobs", title: "Ended, of all", width: "7rem", align: "right", render: (s) => <span title={jobsDone(s.progress)}>{count(s.progress.ended)} / {count(s.progress.jobs)}</span> },
  { key: "failed", label: "Failed", title: "Jobs that did not succeed", width: "4rem", align: "right", render: (s) => (s.progress.failed ? <span class="text-bad">{count(s.progress.failed)}</span> : "–") },
  { key: "created", label: "Created", width: "6.5rem", align: "right", render: (s) => <span title={s.created_at}>{time(s.created_at)}</span> },
  { key: "actions", label: "", width: "2.2rem", render: (s) => <Actions study={s} changed={changed} /> },
];

function CompactStudy({ study, changed }) {
  return (
    <div class="job-card">
      <div><a class="clip" href={href(study)}>{study.name}</a><StateMark state={study.state} /><Actions study={study} changed={changed} /></div>
      <div class="dim clip">{study.kind} · {jobsDone(study.progress)} · {study.owner} · {ago(study.created_at)}</div>
      <div><ProgressCell study={study} /></div>
    </div>
  );
}

export function Studies() {
  const [kind, setKind] = useQuery("kind");
  const [owner, setOwner] = useQuery("owner");
  const list = useStudies({ kind, owner });
  const viewer = useStore(session, (s) => s.me?.role === "viewer");
  const me = useStore(session, (s) => s.me);
  const latest = useRef(list);
  latest.current = list;
  const changed = useCallback(() => latest.current.reload(), []);
  const columns = useMemo(() => columnsOf(changed), [me]);
  const compact = useCallback((s) => <CompactStudy study={s} changed={changed} />, [me]);
  const rows = list.items ?? [];
  const more = useCallback((from, to) => to >= rows.length - 20 && latest.current.more(), [rows.length, list.next]);
  return (
    <div class="page fill">
      <div class="bar-top"><h1>Studies</h1>
        <div class="filters" role="search">
          <select aria-label="Kind" value={kind} class={kind ? "set" : ""} onChange={(e) => setKind(e.currentTarget.value)}>
            <option value="">any kind</option><option value="sweep">sweep</option><option value="mamba">mamba</option><option value="ladder">ladder</option></select>
          <select aria-label="Owner" value={owner} class={owner ? "set" : ""} onChange={(e) => setOwner(e.currentTarget.value)}><option value="">my studies</option><option value="all">all users’ studies</option></select>
        </div>
        {!viewer && <span class="group end"><a class="button primary" href="#/studies/new">New study</a></span>}
      </div>
      {list.items === null && !list.error && <Loading what="studies" />}
      {list.error && (list.items === null || list.error.status !== 0) && <Failure error={list.error} retry={list.reload} />}
      {list.items !== null && (
        <VirtualTable label="Studies" fill columns={columns} count={rows.length} row={(i) => rows[i]} rowKey={(s) => s.id} height={34} minWidth="52rem"
          compact={compact} compactHeight={92} onRange={more} onOpen={(s) => navigate(`/studies/${s.id}`)}
          empty={kind || owner ? <Empty title="No study matches">Remove a filter, or <a href="#/studies">show all my studies</a>.</Empty>
            : <Empty title="No studies yet">A study asks one question of several jobs: one job at many settings, a step size, or its bias. {!viewer && <><a href="#/studies/new">Start one</a>, or submit a file: <code>barker study sweep.json</code>.</>}</Empty>} />
      )}
    </div>
  );
}
