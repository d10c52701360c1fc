// Name, state, actions and progress of a job.
import { useState } from "preact/hooks";
import { act, actionsFor, mayChange } from "../../actions.js";
import { api } from "../../api.js";
import { ago, bytes, count, duration, modelName, percent, plural, samplerName, time } from "../../format.js";
import { eventClock, putChange } from "../../live.js";
import { planningNow, oneInText } from "../../settingnames.js";
import { navigate } from "../../router.js";
import { session, tick, ticked, useStore } from "../../store.js";
import { Button } from "../../ui/button.jsx";
import { Dialog } from "../../ui/dialog.jsx";
import { Field, SelectField, TextField } from "../../ui/field.jsx";
import { useFormErrors } from "../../ui/formerrors.js";
import { Menu } from "../../ui/menu.jsx";
import { ProgressBar } from "../../ui/meter.jsx";
import { Mistakes } from "../../ui/states.jsx";
import { useNarrow } from "../../ui/table.jsx";
import { StateMark, Tag } from "../../ui/tag.jsx";

export function Head({ job }) {
  const [editing, setEditing] = useState(false);
  const on = useStore(ticked, (t) => t.ids.includes(job.id));
  useStore(session, (s) => s.me); // whose actions they are may come later than the job
  const run = async (verb) => {
    if ((await act(verb, job)) && (verb === "delete" || verb === "purge")) navigate("/jobs");
  };
  const { request } = job;
  const narrow = useNarrow();
  const actions = actionsFor(job).map(({ verb, label, danger }) => ({ label, danger, run: () => run(verb) }));
  if (mayChange(job)) actions.unshift({ label: "Edit…", run: () => setEditing(true) });
  return (
    <header class="job-head">
      <div class="bar-top">
        <h1 class="clip" title={job.name}>{job.name}</h1>
        <StateMark state={job.state} />
        {job.tags?.map((t) => <Tag key={t} name={t} />)}
        <span class="spring" />
        <span class="group"><Button aria-pressed={on} onClick={() => tick(job.id, !on)}>{on ? "✓ Selected" : "Compare"}</Button>
        {narrow ? <Menu label="Actions" items={actions}>More ⋯</Menu> : actions.map((a) => <Button key={a.label} class={a.danger ? "text-bad" : ""} onClick={a.run}>{a.label}</Button>)}</span>
      </div>
      <p class="dim facts">
        <span>{modelName(request)}{request?.data && <> on {request.data.path}</>}</span>
        <span>{samplerName(request)}, {batchOf(request)}</span>
        <span>{lengthOf(request)}</span>
        <span>owner {job.owner}{job.visibility === "lab" && ", visible to all users"}</span>
        <span title={job.created_at}>submitted {ago(job.created_at)}</span>
        <span>{bytes(job.stored_bytes)} stored</span>
      </p>
      <Progress job={job} />
      {job.note && <p class="note">{job.note}</p>}
      {editing && <Edit job={job} close={() => setEditing(false)} />}
    </header>
  );
}

const batchOf = ({ batch_size: n, gradient } = {}) => (typeof n === "number" ? `batches of ${count(n)} ${oneInText(gradient)}`.trim() : n === "auto" ? "batch size automatic" : "full batch");

function lengthOf({ chains, warmup, iterations } = {}) {
  const length = [warmup, iterations].every((n) => typeof n === "number") ? ` of ${count(warmup)} + ${count(iterations)} iterations` : ", length automatic";
  return `${typeof chains === "number" ? plural(chains, "chain") : "chains"}${length}`;
}

function Progress({ job }) {
  const p = job.progress;
  const active = ["queued", "running"].includes(job.state);
  return (
    <div class="job-progress">
      {p && <ProgressBar value={planningNow(job) ? null : p.fraction} tone={planningNow(job) ? "planning" : job.state} label="Progress of all chains" />}
      <p>
        {p && p.total > 0 && <span>{percent(p.fraction)} of {count(p.total)} iterations</span>}
        {p && active && p.eta_seconds !== null && <span>about {duration(p.eta_seconds)} left</span>}
        {p && active && p.iterations_per_second !== null && <span>{count(p.iterations_per_second)} iterations/s</span>}
        {p && <span>{duration(p.elapsed_seconds)} elapsed, {duration(p.cpu_seconds)} CPU time</span>}
        {job.ended_at && <span>ended {time(job.ended_at)}</span>}
        {job.reason && <span class={job.state === "failed" ? "text-bad" : "dim"}>{job.reason}</span>}
      </p>
    </div>
  );
}

function Edit({ job, close }) {
  const [form, setForm] = useState({ name: job.name, note: job.note, tags: job.tags.join(", "), priority: String(job.priority), visibility: job.visibility });
  const { setError, problem, rest } = useFormErrors();
  const set = (key) => (value) => setForm((old) => ({ ...old, [key]: value }));
  const submit = async (event) => {
    event.preventDefault();
    try {
      const tags = form.tags.split(",").map((t) => t.trim()).filter(Boolean);
      const sentAt = eventClock();
      putChange(await api.patch(`/v1/jobs/${job.id}`, { name: form.name, note: form.note, tags, priority: Number(form.priority), visibility: form.visibility }), sentAt);
      close();
    } catch (error) {
      setError(error);
    }
  };
  return (
    <Dialog title="Edit job" onClose={close}>
      <form onSubmit={submit} noValidate class="stack">
        <TextField label="Name" value={form.name} onInput={set("name")} problem={problem("/name")} autoFocus />
        <TextField label="Tags" hint="separated by commas" value={form.tags} onInput={set("tags")} problem={problem("/tags")} />
        <Field label="Note" problem={problem("/note")}><textarea rows={4} value={form.note} onInput={(e) => set("note")(e.currentTarget.value)} /></Field>
        <TextField label="Priority" hint="among your own jobs: −100 (last) to 100 (first)" inputMode="numeric" value={form.priority} onInput={set("priority")} problem={problem("/priority")} />
        <SelectField label="Visibility" value={form.visibility} onChange={set("visibility")} options={[["private", "private: only the owner"], ["lab", "lab: all users of this server"]]} />
        <Mistakes errors={rest("/name", "/note", "/tags", "/priority", "/visibility")} />
        <div class="dialog-actions"><Button onClick={close}>Cancel</Button><Button type="submit" kind="primary">Save</Button></div>
      </form>
    </Dialog>
  );
}
