// Display names of the settings that the daemon can choose (a plan).

export const ESTIMATORS = { auto: "automatic", plain: "plain", control_variate: "control variates" };
export const CENTRES = { mode: "posterior mode", pilot: "mean of a pilot run" };
export const PRECONDITIONS = { auto: "automatic", none: "none", diagonal: "diagonal", dense: "dense" };

const SETTINGS = {
  sampler: "sampler", step_size: "step size", "gradient.estimator": "gradient", "gradient.one_in": "iterations per batch", precondition: "preconditioning", batch_size: "batch size", iterations: "iterations",
  warmup: "warm-up", thin: "thinning", chains: "chains", init: "initial values",
};

// The display name of a setting named in `auto` of a plan.
export const settingName = (name) => SETTINGS[name] ?? name;

// The JSON pointer of that setting in a job.
const POINTERS = { variant: "/sampler/variant", step_size: "/sampler/step_size", "gradient.estimator": "/gradient/estimator", "gradient.one_in": "/gradient/one_in" };
export const settingPointer = (name) => POINTERS[name] ?? `/${name}`;

// "in 1 of 16 iterations", or "" if every iteration reads rows.
export const oneInText = (gradient) => (gradient?.one_in > 1 ? `in 1 of ${gradient.one_in} iterations` : "");

// "a, b and c"
export const joinWords = (words) => (words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

// The current step of planning, or null.
export const planningNow = (job) => (job.phase === "planning" ? job.reason : null);
