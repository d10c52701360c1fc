// The page of one study: progress, what it has found, and its numbers by kind.
import { useEffect, useRef } from "preact/hooks";
import { ago, duration, hasEnded, percent, time } from "../format.js";
import { useEvery, useResource } from "../resource.js";
import { navigate } from "../router.js";
import { session, useStore } from "../store.js";
import { Button } from "../ui/button.jsx";
import { Menu } from "../ui/menu.jsx";
import { ProgressBar } from "../ui/meter.jsx";
import { Empty, Failure, Loading } from "../ui/states.jsx";
import { useNarrow } from "../ui/table.jsx";
import { StateMark } from "../ui/tag.jsx";
import { jobsDone } from "./studies.jsx";
import { studyActions } from "./study/actions.js";
import { Ladder } from "./study/ladder.jsx";
import { Mamba } from "./study/mamba.jsx";
import { Sweep } from "./study/sweep.jsx";

const VIEWS = { sweep: Sweep, mamba: Mamba, ladder: Ladder };
const REST_MS = 2000;
const PARTS = 50; // rows of a ladder; a sweep fetches its table itself

export function Study({ id }) {
  const running = useRef(true);
  const loaded = useResource(`/v1/studies/${id}`, { limit: PARTS }, { on: (type) => type === "job.state" || (running.current && type === "job.progress"), atLeast: REST_MS });
  const study = loaded.data;
  running.current = !study || !hasEnded(study);
  useEvery(2 * REST_MS, !!study && running.current, loaded.reload); // it ends a moment after the last event of its jobs
  useEffect(() => {
    if (study) document.title = `${study.name} · barkerd`;
  }, [study?.name]);
  if (!study) return loaded.error ? <div class="page"><Failure error={loaded.error} retry={loaded.error.status === 404 ? null : loaded.reload} /><p class="note"><a href="#/studies">All studies</a></p></div> : <Loading what="the study" />;
  const View = VIEWS[study.kind];
  return (
    <div class="page job study">
      <Head study={study} reload={loaded.reload} />
      <Found study={study} />
      {study.result ? <View study={study} result={study.result} /> : <Empty title="No result yet">{study.result_reason ?? study.reason}</Empty>}
    </div>
  );
}

function Head({ study, reload }) {
  const narrow = useNarrow(), p = study.progress;
  useStore(session, (s) => s.me); // whose actions they are may come later than the study
  const actions = studyActions(study, (gone) => (gone ? navigate("/studies") : reload()));
  return (
    <header class="job-head">
      <div class="bar-top">
        <h1 class="clip" title={study.name}>{study.name}</h1><StateMark state={study.state} /><span class="spring" />
        <span class="group"><a class="button" href={`#/jobs?study=${study.id}`}>Jobs</a>
          {narrow ? actions.length > 0 && <Menu label="Actions" items={actions}>More ⋯</Menu> : actions.map((a) => <Button key={a.label} class={a.danger ? "text-bad" : ""} onClick={a.run}>{a.label}</Button>)}</span>
      </div>
      <p class="dim facts"><span>{study.kind}</span><span>owner {study.owner}</span><span title={study.created_at}>created {ago(study.created_at)}</span></p>
      <div class="job-progress">
        <ProgressBar value={p.fraction} tone={study.state} label="Progress of the study" />
        <p>
          <span>{percent(p.fraction)}</span><span>{jobsDone(p)}</span>
          {!hasEnded(study) && p.eta_seconds !== null && <span>about {duration(p.eta_seconds)} left</span>}
          {study.ended_at && <span>ended {time(study.ended_at)}</span>}
          <span class={study.state === "failed" ? "text-bad" : "dim"}>{study.reason}</span>
        </p>
      </div>
    </header>
  );
}

// What the daemon says about the result, and why to be careful with it.
function Found({ study: { result } }) {
  if (!result) return null;
  return (
    <section class={`card verdict ${result.cautions.length ? "warn" : ""}`} aria-label="Result">
      <p class="sentence wrap">{result.sentence}</p>
      {!result.complete && <p class="dim">Provisional: jobs are still to end.</p>}
      {result.cautions.length > 0 && <ul class="cautions" aria-label="Cautions">{result.cautions.map((text) => <li key={text}>{text}</li>)}</ul>}
    </section>
  );
}
