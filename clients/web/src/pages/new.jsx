// A new job: form and JSON of one document, validated by the daemon while the user types.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { navigate, useQuery } from "../router.js";
import { useResource } from "../resource.js";
import { session, useStore } from "../store.js";
import { joinWords, settingName, settingPointer } from "../settingnames.js";
import { Button } from "../ui/button.jsx";
import { Empty, Failure, Loading } from "../ui/states.jsx";
import { resolvedFor, useCheck } from "./new/check.js";
import { Data } from "./new/data.jsx";
import { AUTO_SAMPLER, defaultsOf, firstDocument, fromRequest, getAt, nameOf, withAuto, withModel, withSampler } from "./new/document.js";
import { begin, draft, forget, untouched } from "./new/draft.js";
import { Gradient } from "./new/gradient.jsx";
import { Choice } from "./new/fields.jsx";
import { makeForm } from "./new/form.js";
import { Cost, Status, SubmitBar } from "./new/status.jsx";
import { Head, Keeping, More, Run } from "./new/run.jsx";
import { Settings } from "./new/settings.jsx";
import { submit as send } from "./new/submit.js";
import { AsText } from "./new/editor.jsx";

export function New() {
  const role = useStore(session, (s) => s.me?.role);
  const models = useResource("/v1/models");
  const samplers = useResource("/v1/samplers");
  const fields = useResource("/v1/fields");
  const failed = [models, samplers, fields].find((r) => r.error && !r.data);
  if (role === "viewer") return <div class="page"><Empty title="Viewers cannot submit jobs">Submitting jobs needs the role “user”. An admin can change your role.</Empty></div>;
  if (failed) return <div class="page"><Failure error={failed.error} retry={failed.reload} /></div>;
  if (!models.data || !samplers.data || !fields.data || !role) return <div class="page"><Loading what="models and samplers" /></div>;
  return <Begun models={models.data.items} samplers={[AUTO_SAMPLER, ...samplers.data.items]} fields={fields.data.items} />;
}

// The initial document: the saved draft, a copy of a job, or the first model and sampler.
function Begun({ models, samplers, fields }) {
  const [from] = useQuery("from");
  const [error, setError] = useState(null);
  const doc = useStore(draft, (d) => d.doc);
  const source = useStore(draft, (d) => d.from);
  useEffect(() => {
    const now = draft.get();
    if (!from) {
      if (now.doc === null || (now.from && untouched(now))) begin(firstDocument(models, samplers));
      return;
    }
    if (now.from === from && now.doc) return;
    setError(null);
    api.get(`/v1/jobs/${from}`).then((job) => begin(fromRequest(job.request, models, samplers, defaultsOf(fields)), from, job.plan?.auto)).catch(setError);
  }, [from]);
  if (error) return <div class="page"><Failure error={error} /><p class="state"><a href="#/new">Start with an empty form</a></p></div>;
  if (!doc || (from && source !== from)) return <div class="page"><Loading what={from ? "the job to copy" : ""} /></div>;
  return <Writing doc={doc} models={models} samplers={samplers} fields={fields} from={source} />;
}

// Focuses the field of an error, or its line in the JSON.
function goTo(pointer, editor) {
  for (let place = pointer; place; place = place.slice(0, place.lastIndexOf("/"))) {
    const field = [...document.querySelectorAll("[data-at]")].find((e) => e.dataset.at === place) ?? (place === pointer && document.querySelector(`[data-at^="${CSS.escape(place)}/"]`));
    if (!field) continue;
    field.closest("details")?.setAttribute("open", "");
    field.focus();
    field.scrollIntoView({ block: "center" });
    return;
  }
  editor?.go(pointer);
}

const NO_DATA = [{ pointer: "/data/path", detail: "is required: choose a file on the server, or upload one", kind: "required" }];

function Writing({ doc, models, samplers, fields, from }) {
  const [broken, setBroken] = useState(null);
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const editor = useRef();
  const given = draft.get().auto.filter((name) => getAt(doc, settingPointer(name)) !== undefined);
  const needsData = models.find((m) => m.name === nameOf(doc.model))?.data !== "none" && doc.data === undefined;
  const check = useCheck(doc, needsData && untouched(draft.get()) ? NO_DATA : null);
  const change = (next) => {
    draft.set({ doc: next });
    setFailure(null);
  };
  const form = makeForm({ doc, fields, change, errors: check.errors, tried, resolved: resolvedFor(doc, check.result), estimate: check.phase === "valid" ? check.result.estimate : null });
  const go = (pointer) => goTo(pointer, editor.current);

  const submit = async () => {
    setTried(true);
    if (broken || busy) return;
    if (check.phase === "wrong") {
      go(check.errors[0].pointer);
      return;
    }
    setBusy(true);
    setFailure(null);
    try {
      const job = await send("/v1/jobs", doc);
      forget();
      navigate(`/jobs/${job.id}`);
    } catch (error) {
      setFailure(error.errors?.length ? null : error.message);
      if (error.errors?.length) go(error.errors[0].pointer);
      setBusy(false);
    }
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submit();
    }
  };
  const startOver = () => {
    begin(firstDocument(models, samplers));
    setTried(false);
    navigate("/new", {}, { replace: true });
  };
  return (
    <div class="page new-job" onKeyDown={keys}>
      <div class="bar-top new-head">
        <h1>New job</h1>
        {from && <span class="dim">copy of <a href={`#/jobs/${from}`}>{from}</a></span>}
        <span class="spring" />
        {given.length > 0 && <Button kind="quiet" title={`Set to automatic: ${joinWords(given.map(settingName))}. The copy has the values chosen for the original.`} onClick={() => change(withAuto(doc, given))}>Reset to automatic</Button>}
        {(from || !untouched(draft.get())) && <Button kind="quiet" onClick={startOver}>Start over</Button>}
      </div>
      <fieldset class="stack plain-set" disabled={!!broken} aria-label="The job as a form">
        <Choices form={form} models={models} samplers={samplers} estimate={form.dimension === undefined ? null : check.result.estimate} />
      </fieldset>
      <div class="stack side">
        <section class="card" aria-label="Check">
          <SubmitBar check={check} doc={doc} broken={broken} busy={busy} failure={failure} submit={submit} />
          <Status check={check} doc={doc} broken={broken} go={go} />
          <Cost check={check} doc={doc} broken={broken} />
        </section>
        <AsText doc={doc} change={change} broken={setBroken} handle={editor} />
      </div>
    </div>
  );
}

function Choices({ form, models, samplers, estimate }) {
  const { doc } = form;
  const model = models.find((m) => m.name === nameOf(doc.model));
  const sampler = samplers.find((s) => s.name === nameOf(doc.sampler));
  const pick = (list, merge) => (name) => form.change(merge(doc, list.find((e) => e.name === name)));
  return (
    <>
      <section class="card" aria-label="Name and model">
        <Head form={form} />
        <div class="form-grid">
          <Choice form={form} at="/model" label="Model" hint={model?.help} value={nameOf(doc.model) ?? ""} options={models.map((m) => m.name)} onChange={pick(models, withModel)}
            problem={form.problem("/model", !model) ?? form.problem("/model/name")} />
          <Settings form={form} under="model" entry={model} />
        </div>
      </section>
      {(model?.data !== "none" || doc.data !== undefined) && model && <Data form={form} model={model} />}
      <section class="card" aria-label="Sampler">
        <div class="form-grid">
          <Choice form={form} at="/sampler" label="Sampler" hint={sampler?.help} value={nameOf(doc.sampler) ?? ""}
            options={samplers.map((s) => [s.name, s.exact ? `${s.name} (exact)` : s.name])} onChange={pick(samplers, withSampler)} problem={form.problem("/sampler", !sampler) ?? form.problem("/sampler/name")} />
          <Settings form={form} under="sampler" entry={sampler} />
        </div>
      </section>
      <Run form={form} model={model} sampler={sampler} estimate={estimate} />
      <Gradient form={form} model={model} sampler={sampler} />
      <More form={form} model={model} />
      <Keeping form={form} />
    </>
  );
}
