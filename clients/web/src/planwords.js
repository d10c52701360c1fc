// What the daemon chooses before a job starts, in words.

export const ESTIMATORS = { auto: "automatic", plain: "plain", control_variate: "control variates" };
export const CENTRES = { mode: "the mode", pilot: "the mean of a pilot run" };
export const PRECONDITIONS = { auto: "automatic", none: "none", diagonal: "diagonal", dense: "dense" };

const SETTINGS = {
  step_size: "step size", "gradient.estimator": "gradient", "gradient.one_in": "how often rows are looked at", precondition: "preconditioning", batch_size: "batch size", iterations: "iterations",
  warmup: "warm-up", thin: "thinning", chains: "chains", init: "start",
};

// A setting as `auto` of a plan names it.
export const settingName = (name) => SETTINGS[name] ?? name;

// Where it stands in a job.
const PLACES = { step_size: "/sampler/step_size", "gradient.estimator": "/gradient/estimator", "gradient.one_in": "/gradient/one_in" };
export const settingPlace = (name) => PLACES[name] ?? `/${name}`;

// "in one of 16 iterations", or nothing where all of them look at rows.
export const seldom = (gradient) => (gradient?.one_in > 1 ? `in one of ${gradient.one_in} iterations` : "");

// "a, b and c"
export const listed = (words) => (words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

// What a job that is being planned is at, or null.
export const planningNow = (job) => (job.phase === "planning" ? job.reason : null);
