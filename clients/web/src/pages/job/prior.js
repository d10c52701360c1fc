// The prior density of a parameter, from `prior` of the model's description (GET /v1/models/{name}).

const normal = (mean, sd) => (x) => Math.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * Math.sqrt(2 * Math.PI));
// The logarithm of an exponential variable with this mean.
const logExponential = (mean) => (x) => (Math.exp(x) / mean) * Math.exp(-Math.exp(x) / mean);

// A function of x, or null if the prior is not known in closed form. `settings` are those of the job's model; a mean or sd
// is a number or the name of a setting, whose value may be a list with one number per element of the block.
export function priorOf(description, settings, parameter) {
  const [, block, index] = /^([^[]+)(?:\[(\d+)\])?/.exec(parameter) ?? [];
  const prior = description?.prior?.find((p) => p.block === block);
  const valueOf = (number) => {
    const value = typeof number === "string" ? settings?.[number] : number;
    return Array.isArray(value) ? value[Number(index) - 1] : value;
  };
  const mean = valueOf(prior?.mean), sd = valueOf(prior?.sd);
  if (prior?.family === "normal" && typeof mean === "number" && sd > 0) return normal(mean, sd);
  if (prior?.family === "log_exponential" && mean > 0) return logExponential(mean);
  return null;
}
