// Jobs that several test files use.
import { logisticCsv } from "./daemon.mjs";

export const logistic = (fields) => ({
  model: "logistic", data: { path: "train.csv", test: "test.csv" }, batch_size: 60, warmup: 1000, iterations: 6000, thin: 2, chains: 4, metric_every: 100, seed: 3, ...fields,
});

// A job with an exact sampler that becomes the reference "exact", a good job that agrees with it, and a coarse one that does not.
export async function fillLab(daemon) {
  daemon.file("train.csv", logisticCsv(600, 1));
  daemon.file("test.csv", logisticCsv(200, 2));
  const exact = await daemon.run(logistic({ name: "exact", sampler: "barker_mh", batch_size: "full", tags: ["reference"], visibility: "lab" }));
  await daemon.call("PUT", "/v1/references/exact", { job: exact.id });
  const [good, coarse] = await Promise.all([
    daemon.run(logistic({ name: "Barker dynamics, corrected", sampler: { name: "sgbd", variant: "corrected" }, reference: "exact", tags: ["paper", "figure 2"] })),
    daemon.run(logistic({ name: "Langevin, step too large", sampler: { name: "sgld", step_size: 0.3 }, reference: "exact", tags: ["paper"] })),
  ]);
  return { exact, good, coarse };
}
