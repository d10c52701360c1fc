// Actions on a job: in which states they are allowed, and their confirmations.
import { api } from "./api.js";
import { count, hasEnded } from "./format.js";
import { eventClock, mergeJob, putChange } from "./live.js";
import { navigate } from "./router.js";
import { session } from "./store.js";
import { confirm, prompt } from "./ui/dialog.jsx";
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
  const sentAt = eventClock();
  const changed = await api.post(`/v1/jobs/${job.id}/${verb}`, body);
  if (changed?.id) putChange(changed, sentAt);
};

// Iterations per chain after warm-up; an extension adds to these.
function iterationsSoFar(job) {
  const requested = Number(job.request?.iterations) || 0;
  if (!hasEnded(job)) return requested;
  const furthest = Math.max(0, ...(job.progress?.chains ?? []).map((c) => c.iteration));
  return Math.max(0, furthest - (Number(job.request?.warmup) || 0));
}

const postWithToast = (verb, message) => async (job) => {
  await post(verb)(job);
  toast(message);
};

const RUN = {
  pause: postWithToast("pause", "Paused. The draws so far are available."),
  resume: postWithToast("resume", "Resumed."),
  cancel: postWithToast("cancel", "Cancelled. The draws so far are kept."),
  retry: postWithToast("retry", "Retrying from the last saved state."),
  async extend(job) {
    const soFar = iterationsSoFar(job);
    const text = await prompt({
      title: `Extend “${job.name}”`,
      text: `The chains continue from their last draw; the result is the same as that of one longer run. So far: ${count(soFar)} iterations after warm-up per chain.`,
      label: "Additional iterations per chain", value: String(soFar || 10000), action: "Extend",
      check: (t) => (/^[1-9]\d{0,14}$/.test(t.trim()) ? null : "Enter a whole number of at least 1."),
    });
    if (text !== null) await post("extend")(job, { iterations: Number(text.trim()) });
  },
  async delete(job) {
    const sure = await confirm({
      title: `Delete “${job.name}”?`,
      text: "Its draws move to the trash and can be restored for a limited time (one day by default). After that they are lost.",
      action: "Delete", danger: true,
    });
    if (!sure) return false;
    await api.delete(`/v1/jobs/${job.id}`);
    mergeJob({ id: job.id, deleted: true });
    toast("Moved to the trash.");
    return true;
  },
  async restore(job) {
    await api.post(`/v1/jobs/${job.id}/restore`);
    toast("Restored.");
    return true;
  },
  async purge(job) {
    const sure = await confirm({
      title: `Delete “${job.name}” permanently?`,
      text: "Its draws cannot be restored.", action: "Delete permanently", danger: true,
    });
    if (!sure) return false;
    await api.delete(`/v1/jobs/${job.id}?purge=true`);
    toast("Deleted permanently.");
    return true;
  },
  async clone(job) {
    navigate("/new", { from: job.id });
  },
};

const NAMES = { pause: "Pause", resume: "Resume", cancel: "Cancel", extend: "Extend…", retry: "Retry", delete: "Delete…", clone: "Clone…", restore: "Restore", purge: "Delete permanently…" };

// Runs an action; errors become a toast. Returns true if the job left its list.
export async function act(verb, job) {
  try {
    return (await RUN[verb](job)) === true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}

// [{verb, label, danger}] allowed in the job's state; `trash`: the job is in the trash.
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
