// Gradient estimator, preconditioning and target accuracy of the new job.
import { CENTRES, ESTIMATORS, PRECONDITIONS } from "../../settingnames.js";
import { CheckField } from "../../ui/field.jsx";
import { Choice, NumberEntry } from "./fields.jsx";

const AUTOMATIC = ["/gradient/estimator", "/precondition", "/batch_size", "/iterations", "/warmup", "/thin"];

// Whether some setting is automatic.
const isAutomatic = (form) => AUTOMATIC.some((at) => (form.get(at) ?? form.fallback(at)) === "auto");

// The options, with the default first.
function optionsOf(words, fallback) {
  return [["", fallback ? `default: ${words[fallback] ?? fallback}` : "default"], ...Object.entries(words)];
}

const ESTIMATOR_HINTS = { plain: "sum over a batch, scaled by N/n", control_variate: "differences from the gradient at a centre; less noise near the centre", auto: "control variates if they reduce noise at equal cost" };
const PRECONDITION_HINTS = {
  none: "steps in the units of the parameters", diagonal: "each parameter in units of its posterior sd", dense: "steps in whitened coordinates: uncorrelated, with posterior sd 1",
  auto: "dense if the model and the number of parameters allow it",
};

export function Gradient({ form, model, sampler }) {
  const given = (at) => form.get(at) ?? (form.fallback(at) || undefined);
  const estimator = given("/gradient/estimator"), precondition = given("/precondition");
  const data = model?.data !== "none" && !sampler?.exact;
  return (
    <section class="card" aria-label="Gradient and preconditioning">
      <h2>Gradient and preconditioning</h2>
      <div class="form-grid">
        {(data || form.get("/gradient") !== undefined) && <Choice form={form} at="/gradient/estimator" label="Gradient" hint={ESTIMATOR_HINTS[estimator]} options={optionsOf(ESTIMATORS, form.fallback("/gradient/estimator"))} />}
        {(data && estimator !== "plain" && estimator !== undefined) || form.get("/gradient/centre") !== undefined
          ? <Choice form={form} at="/gradient/centre" label="Centre" fallback={form.defaultOf("/gradient/centre")} options={Object.entries(CENTRES)} /> : null}
        {(data && estimator !== "plain" && estimator !== undefined) || form.get("/gradient/one_in") !== undefined
          ? <NumberEntry form={form} at="/gradient/one_in" label="Iterations per batch" or="auto" words={["auto"]} hint="on average, 1 in this many iterations reads a batch; 1: every iteration" /> : null}
        <Choice form={form} at="/precondition" label="Preconditioning" hint={PRECONDITION_HINTS[precondition]} options={optionsOf(PRECONDITIONS, form.fallback("/precondition"))} />
      </div>
      {(isAutomatic(form) || form.get("/target") !== undefined) && <Target form={form} />}
    </section>
  );
}

function Target({ form }) {
  const unlimited = form.doc.target?.seconds === null; // absent: the daemon's default limit
  return (
    <>
      <h3>Target accuracy</h3>
      <p class="dim">Automatic settings are chosen for this target before the first iteration. The job page shows them with the reasons.</p>
      <div class="form-grid narrow">
        <NumberEntry form={form} at="/target/sd_error" label="Error of sd" hint="relative error of every posterior sd" />
        <NumberEntry form={form} at="/target/mean_error" label="Error of mean" hint="of every posterior mean, in posterior sds" />
        <NumberEntry form={form} at="/target/ess" label="ESS" or="computed from the errors" hint="for every parameter" />
        <NumberEntry form={form} at="/target/seconds" label="Time limit" placeholder={unlimited ? "no limit" : form.fallback("/target/seconds")} hint="seconds per chain, including planning" />
      </div>
      <CheckField label="No time limit" checked={unlimited} onChange={(on) => form.set("/target/seconds", on ? null : undefined)} />
      {form.problem("/target", false) && <p class="problem" role="alert">{form.problem("/target", false)}</p>}
    </>
  );
}
