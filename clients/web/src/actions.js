// What can be done to a job, in which state, and what is asked first.
import { api } from "./api.js";
import { count, isOver } from "./format.js";
import { asking, mergeJob, putChange } from "./live.js";
import { navigate } from "./router.js";
import { session } from "./store.js";
import { ask, confirm } from "./ui/dialog.jsx";
import { toast } from "./ui/toast.jsx";

const ALLOWED = {
  pause: ["queued", "running"],
  resume: ["paused"],
  cancel: ["queued", "running", "paused"],
  extend: ["queued", "running", "paused", "succeeded", "cancelled"],
  retry: ["failed"],
  delete: ["succeeded", "failed", "cancelled"],
};

export function mayChange(job) {
  const { me } = session.get();
  return !!me && me.role !== "viewer" && (me.role === "admin" || me.user === job.owner);
}

const post = (verb) => async (job, body) => {
  const asked = asking();
  const changed = await api.post(`/v1/jobs/${job.id}/${verb}`, body);
  if (changed?.id) putChange(changed, asked);
};

// After warm-up, per chain: what an extension adds to.
function iterationsSoFar(job) {
  const asked = Number(job.request?.iterations) || 0;
  if (!isOver(job)) return asked;
  const furthest = Math.max(0, ...(job.progress?.chains ?? []).map((c) => c.iteration));
  return Math.max(0, furthest - (Number(job.request?.warmup) || 0));
}

const RUN = {
  async pause(job) {
    await post("pause")(job);
    toast("Paused. The draws so far are there.");
  },
  async resume(job) {
    await post("resume")(job);
    toast("It goes on where it was.");
  },
  async cancel(job) {
    await post("cancel")(job);
    toast("Cancelled. The draws so far are kept.");
  },
  async retry(job) {
    await post("retry")(job);
    toast("Tried again from the last saved state.");
  },
  async extend(job) {
    const soFar = iterationsSoFar(job);
    const text = await ask({
      title: `Extend “${job.name}”`,
      text: `The chains go on where they are; the result is that of a run that was long from the start. So far: ${count(soFar)} iterations after warm-up per chain.`,
      label: "How many more per chain", value: String(soFar || 10000), action: "Extend",
      check: (t) => (/^[1-9]\d{0,14}$/.test(t.trim()) ? null : "A whole number from 1 on."),
    });
    if (text !== null) await post("extend")(job, { iterations: Number(text.trim()) });
  },
  async delete(job) {
    const sure = await confirm({
      title: `Delete “${job.name}”?`,
      text: "Its draws go to the trash, from where they can be restored for a while (a day, unless the server is set otherwise). After that they are lost.",
      action: "Delete", danger: true,
    });
    if (!sure) return false;
    await api.delete(`/v1/jobs/${job.id}`);
    mergeJob({ id: job.id, deleted: true });
    toast("Deleted. It is in the trash.");
    return true;
  },
  async restore(job) {
    await api.post(`/v1/jobs/${job.id}/restore`);
    toast("Restored.");
    return true;
  },
  async purge(job) {
    const sure = await confirm({
      title: `Delete “${job.name}” for good?`,
      text: "Its draws cannot be brought back.", action: "Delete for good", danger: true,
    });
    if (!sure) return false;
    await api.delete(`/v1/jobs/${job.id}?purge=true`);
    toast("Gone for good.");
    return true;
  },
  async clone(job) {
    navigate("/new", { from: job.id });
  },
};

const NAMES = { pause: "Pause", resume: "Resume", cancel: "Cancel", extend: "Extend…", retry: "Try again", delete: "Delete…", clone: "Clone…", restore: "Restore", purge: "Delete for good…" };

// Runs one and says what went wrong. True when the job left the list that it was in.
export async function act(verb, job) {
  try {
    return (await RUN[verb](job)) === true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}

// [{verb, label, danger}] that make sense now; `trash`: the job is in the trash.
export function actionsFor(job, { trash = false } = {}) {
  const verbs = [];
  if (trash) verbs.push("restore", "purge");
  else {
    for (const verb of ["pause", "resume", "cancel", "retry", "extend"])
      if (ALLOWED[verb].includes(job.state)) verbs.push(verb);
    verbs.push("clone");
    if (ALLOWED.delete.includes(job.state)) verbs.push("delete");
  }
  const may = mayChange(job);
  return verbs
    .filter((verb) => may || (verb === "clone" && session.get().me?.role !== "viewer"))
    .map((verb) => ({ verb, label: NAMES[verb], danger: verb === "delete" || verb === "purge" }));
}
