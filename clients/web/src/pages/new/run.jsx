// Length and chains of the run; initial values, storage, stopping, checks; note, priority, visibility.
import { useEffect, useState } from "preact/hooks";
import { count, percent } from "../../format.js";
import { referenceKeys } from "../../references.js";
import { useResource } from "../../resource.js";
import { readNames, readWords, showWords } from "./document.js";
import { Choice, Entry, Flag, NumberEntry } from "./fields.jsx";
import { NumberList } from "./settings.jsx";

// "881 of 20 000 rows (4.4%)"
function batchHint(form, estimate, full) {
  const n = form.get("/batch_size") ?? form.fallback("/batch_size");
  const rows = estimate?.rows;
  if (full) return "this sampler always uses all rows";
  if (n === "auto") return "rows per gradient: a number, full, or auto";
  if (!rows) return "rows per gradient: a number, or full";
  if (n === "full" || Number(n) >= rows) return `all ${count(rows)} rows`;
  return Number(n) > 0 ? `${count(Number(n))} of ${count(rows)} rows (${percent(Number(n) / rows, 1)}) per gradient; full: all rows` : "rows per gradient: a number, or full";
}

const AUTO = ["auto"];

export function Run({ form, model, sampler, estimate }) {
  const data = model?.data !== "none";
  const batch = form.get("/batch_size") !== undefined;
  return (
    <section class="card" aria-label="Run">
      <h2>Run</h2>
      <div class="form-grid narrow">
        <NumberEntry form={form} at="/iterations" label="Iterations" or="auto" words={AUTO} hint="per chain, after warm-up" />
        <NumberEntry form={form} at="/warmup" label="Warm-up" or="auto" words={AUTO} hint="per chain, before sampling" />
        <NumberEntry form={form} at="/chains" label="Chains" or="auto" words={AUTO} hint="use several, to check that they agree" />
        <NumberEntry form={form} at="/thin" label="Thin" or="auto" words={AUTO} hint="store every n-th draw" />
        {(data || batch) && <NumberEntry form={form} at="/batch_size" label="Batch size" or="auto" words={["full", ...AUTO]} disabled={sampler?.exact && !batch} hint={batchHint(form, estimate, sampler?.exact)} />}
        <NumberEntry form={form} at="/seed" label="Seed" placeholder="random" hint="the same seed gives the same draws" />
      </div>
      {((data && !sampler?.exact) || form.get("/replacement") !== undefined) && <Flag form={form} at="/replacement" label="Batches with replacement" hint="a row may occur twice in a batch" />}
    </section>
  );
}

// ---- less common settings ----

const MORE = ["/init", "/save", "/stop_when", "/metric_every", "/reference", "/check_draws"];
const KEPT = ["/note", "/priority", "/visibility"];

// Opens automatically if a field in it is set or has an error.
function Fold({ form, title, pointers, children }) {
  const used = pointers.some((p) => form.get(p) !== undefined || form.problem(p));
  const [open, setOpen] = useState(used);
  useEffect(() => {
    if (used) setOpen(true);
  }, [used]);
  return (
    <details class="card fold" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary><h2>{title}</h2></summary>
      {children}
    </details>
  );
}

export function More({ form, model }) {
  return (
    <Fold form={form} title="Initial values, storage, stopping, checks" pointers={MORE}>
      <div class="form-grid">
        <Start form={form} model={model} />
        <Save form={form} />
        {(model?.metrics.length > 0 || form.get("/metric_every") !== undefined) && <NumberEntry form={form} at="/metric_every" label="Metrics every" hint="iterations; 0: never; needs a test file" or="automatic" />}
        <Reference form={form} />
        <NumberEntry form={form} at="/check_draws" label="Draws checked at the end" hint="on the full data: Stein discrepancy, energy; 0: none" />
      </div>
      <h3>Stop when</h3>
      <p class="dim">Stopping on R-hat or ESS favours runs in which they look good by chance, so the estimates are slightly biased.</p>
      <div class="form-grid narrow">
        <NumberEntry form={form} at="/stop_when/rhat" label="R-hat is at most" placeholder="never" hint="for every saved parameter; for example 1.01" />
        <NumberEntry form={form} at="/stop_when/ess" label="and ESS is at least" placeholder="never" hint="bulk and tail; for example 400" />
        <NumberEntry form={form} at="/stop_when/seconds" label="or after (seconds)" placeholder="never" hint="wall-clock time since the start" />
      </div>
      {form.problem("/stop_when", false) && <p class="problem" role="alert">{form.problem("/stop_when", false)}</p>}
    </Fold>
  );
}

function Start({ form, model }) {
  const value = form.get("/init");
  const kind = (typeof value === "string" ? value : value?.kind) ?? "";
  const change = (k) => form.set("/init", k === "" ? undefined : k === "values" ? { kind: k, values: [] } : { kind: k });
  return (
    <>
      <Choice form={form} at="/init" label="Initial values" value={kind} problem={form.problem("/init", !["values", "map"].includes(kind)) ?? form.problem("/init/kind")} onChange={change}
        options={[["", `model default${model ? ` (${model.default_init})` : ""}`], ["zero", "zero"], ["prior", "draw from the prior"], ["map", "near the mode"], ["auto", "around the plan’s centre"], ["values", "given values"]]} />
      {kind === "values" && <NumberList form={form} at="/init/values" label="Values" />}
      {kind === "map" && <NumberEntry form={form} at="/init/steps" label="Optimizer steps" or="default" hint="at most 10 000" />}
    </>
  );
}

function Save({ form }) {
  const value = form.get("/save/params");
  const kind = !Array.isArray(value) ? (value === undefined ? "" : "some") : value.length ? "some" : "none";
  const [typing, setTyping] = useState(false);
  const some = kind === "some" || typing;
  const change = (k) => {
    setTyping(k === "some");
    form.set("/save/params", k === "" ? undefined : []);
  };
  return (
    <>
      <Choice form={form} at="/save/params" label="Store draws of" value={some ? "some" : kind} onChange={change} problem={form.problem("/save", !some)}
        options={[["", "all parameters"], ["some", "some parameters"], ["none", "none"]]} hint="means and variances are kept for all parameters" />
      {some && <Entry form={form} at="/save/params" label="Parameter names" area rows={2} read={readNames} show={showWords} placeholder="theta[1], U[3,7]" hint="separated by commas" />}
    </>
  );
}

function Reference({ form }) {
  const list = useResource("/v1/references");
  const names = referenceKeys(list.data?.items ?? []).map(([key, r]) => [key, r.visibility === "lab" ? `${r.name} (${r.owner})` : r.name]);
  return <Choice form={form} at="/reference" label="Reference posterior" options={[["", names.length ? "none" : "none available"], ...names]} hint="to measure bias" />;
}

export function Keeping({ form }) {
  return (
    <Fold form={form} title="Note, priority, visibility" pointers={KEPT}>
      <div class="form-grid">
        <Entry form={form} at="/note" label="Note" area rows={3} />
        <NumberEntry form={form} at="/priority" label="Priority" hint="among your own jobs: −100 (last) to 100 (first)" />
        <Choice form={form} at="/visibility" label="Visibility" fallback={form.defaultOf("/visibility")} options={[["private", "private: only you"], ["lab", "lab: all users of this server"]]} />
      </div>
    </Fold>
  );
}

export function Head({ form }) {
  return (
    <div class="form-grid">
      <Entry form={form} at="/name" label="Name" or="model and sampler" maxLength={form.field("/name").max_length} />
      <Entry form={form} at="/tags" label="Tags" read={readWords} show={showWords} placeholder="none" hint="separated by commas" />
    </div>
  );
}
