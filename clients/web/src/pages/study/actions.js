// Actions on a study: in which states they are allowed, and their confirmations.
import { mayChange } from "../../actions.js";
import { api } from "../../api.js";
import { hasEnded } from "../../format.js";
import { confirm, prompt } from "../../ui/dialog.jsx";
import { toast } from "../../ui/toast.jsx";

const post = (verb, message) => async (study) => {
  await api.post(`/v1/studies/${study.id}/${verb}`);
  toast(message);
};

const extend = (field, words) => async (study) => {
  const answer = await prompt({
    title: `Extend “${study.name}”`, text: words.text, label: words.label, value: "", action: "Extend",
    check: (t) => (/^[1-9]\d{0,11}$/.test(t.trim()) ? null : "Enter a whole number of at least 1."),
  });
  if (answer === null) return;
  await api.post(`/v1/studies/${study.id}/extend`, { [field]: Number(answer.trim()) });
  toast("Extended.");
};

const LONGER = { label: "More iterations of every chain", text: "Every job continues from its last draw." };
const SEEDS = { label: "More seeds per setting", text: "Every setting is run with more seeds; the errors of the table become smaller." };

const owned = (study) => study.kind !== "ladder"; // whose jobs belong to the study

async function remove(study) {
  const text = owned(study) ? "Its jobs go with it, to the trash." : "Its jobs stay.";
  if (!(await confirm({ title: `Delete “${study.name}”?`, text, action: "Delete", danger: true }))) return false;
  await api.delete(`/v1/studies/${study.id}`);
  toast("Deleted.");
  return true;
}

const active = (study) => ["queued", "running"].includes(study.state);
const endless = (study) => study.state !== "failed" && study.state !== "cancelling";

const ACTIONS = [
  { verb: "pause", label: "Pause", when: active, run: post("pause", "Paused. No more jobs are submitted.") },
  { verb: "resume", label: "Resume", when: (s) => s.state === "paused", run: post("resume", "Resumed.") },
  { verb: "cancel", label: "Cancel", when: (s) => active(s) || s.state === "paused", run: post("cancel", "Cancelled. What there is so far is kept.") },
  { verb: "seeds", label: "More seeds…", when: (s) => s.kind === "sweep" && endless(s), run: extend("seeds", SEEDS) },
  { verb: "longer", label: "More iterations…", when: (s) => s.kind === "sweep" && endless(s), run: extend("iterations", LONGER) },
  { verb: "delete", label: "Delete…", danger: true, when: (s) => !owned(s) || hasEnded(s), run: remove },
];

// [{label, danger, run}] allowed to the user in this state. done(gone) is called after each, gone: the study was deleted.
export function studyActions(study, done) {
  if (!mayChange(study)) return [];
  return ACTIONS.filter(({ when }) => when(study)).map(({ label, danger, run }) => ({
    label, danger,
    run: async () => {
      try {
        done((await run(study)) === true);
      } catch (error) {
        toast(error.message, "bad");
      }
    },
  }));
}
