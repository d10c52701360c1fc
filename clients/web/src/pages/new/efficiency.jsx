// Which gradient, in which coordinates, and what the draws are to be good for: each of it left to the daemon, or given.
import { CENTRES, ESTIMATORS, PRECONDITIONS } from "../../planwords.js";
import { CheckField } from "../../ui/field.jsx";
import { Choice, NumberEntry } from "./fields.jsx";

const CHOSEN = ["/gradient/estimator", "/precondition", "/batch_size", "/iterations", "/warmup", "/thin"];

// Whether the daemon has something to choose, as far as it has said.
const leavesSomething = (form) => CHOSEN.some((at) => (form.get(at) ?? form.fallback(at)) === "auto");

// The words with what holds where nothing is given in front.
function optionsOf(words, fallback) {
  return [["", fallback ? `by default: ${words[fallback] ?? fallback}` : "by default"], ...Object.entries(words)];
}

const PLAIN = "the sum over a batch, times N/n";
const GRADIENT = { plain: PLAIN, control_variate: "differences from a centre: less noise the nearer the chains are to it", auto: "control variates where they have less noise for their price" };
const COORDINATES = {
  none: "one step size for all, or one for each parameter as given", diagonal: "each parameter in units of its posterior sd", dense: "whitened: steps are in posterior sds of independent coordinates",
  auto: "dense where the model and its size allow it",
};

export function Efficiency({ form, model, sampler }) {
  const given = (at) => form.get(at) ?? (form.fallback(at) || undefined);
  const estimator = given("/gradient/estimator"), precondition = given("/precondition");
  const data = model?.data !== "none" && !sampler?.exact;
  return (
    <section class="card" aria-label="Gradient and coordinates">
      <h2>Gradient and coordinates</h2>
      <div class="form-grid">
        {(data || form.get("/gradient") !== undefined) && <Choice form={form} at="/gradient/estimator" label="Gradient" hint={GRADIENT[estimator]} options={optionsOf(ESTIMATORS, form.fallback("/gradient/estimator"))} />}
        {(data && estimator !== "plain" && estimator !== undefined) || form.get("/gradient/centre") !== undefined
          ? <Choice form={form} at="/gradient/centre" label="Centre" value={form.get("/gradient/centre") ?? "mode"} options={Object.entries(CENTRES)} onChange={(v) => form.set("/gradient/centre", v === "mode" ? undefined : v)} /> : null}
        {(data && estimator !== "plain" && estimator !== undefined) || form.get("/gradient/one_in") !== undefined
          ? <NumberEntry form={form} at="/gradient/one_in" label="Iterations per batch" or="auto" words={["auto"]} hint="one in so many, at random, looks at rows: 1 is all of them" /> : null}
        <Choice form={form} at="/precondition" label="Preconditioning" hint={COORDINATES[precondition]} options={optionsOf(PRECONDITIONS, form.fallback("/precondition"))} />
      </div>
      {(leavesSomething(form) || form.get("/target") !== undefined) && <Target form={form} />}
    </section>
  );
}

function Target({ form }) {
  const unlimited = form.doc.target?.seconds === null; // nothing at all is the daemon's limit
  return (
    <>
      <h3>What the draws are to be good for</h3>
      <p class="dim">What is left to the daemon is chosen for this before the first iteration, and said with its reasons on the page of the job.</p>
      <div class="form-grid narrow">
        <NumberEntry form={form} at="/target/sd_error" label="Error of sds" or="0.02" hint="relative, of every posterior sd" />
        <NumberEntry form={form} at="/target/mean_error" label="Error of means" or="0.02" hint="in posterior sds" />
        <NumberEntry form={form} at="/target/ess" label="Effective draws" or="as these ask for" hint="of every parameter" />
        <NumberEntry form={form} at="/target/seconds" label="Seconds" placeholder={unlimited ? "no limit" : form.fallback("/target/seconds") || "60"} hint="of one chain, planning included" />
      </div>
      <CheckField label="however long it takes" checked={unlimited} onChange={(on) => form.set("/target/seconds", on ? null : undefined)} />
      {form.problem("/target", false) && <p class="problem" role="alert">{form.problem("/target", false)}</p>}
    </>
  );
}
