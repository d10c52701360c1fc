// Documents that POST /v1/studies takes, to begin with; a test sends them to the daemon.
const toy = { name: "skew_normal", alpha: 5, noise_sd: 1 };

export const EXAMPLES = [
  {
    name: "sweep", help: "One job at every setting of a grid, with several seeds: a table of ESS, bias and metrics with their errors.",
    doc: {
      kind: "sweep", name: "bias against step size",
      job: { model: toy, sampler: "sgbd", iterations: 2000, chains: 2, seed: 1 },
      grid: [
        { "/sampler/variant": ["vanilla", "corrected"], "/sampler/step_size": { from: 0.05, to: 0.5, count: 12 } },
        { "/sampler/name": ["sgld"], "/sampler/variant": ["vanilla"], "/sampler/step_size": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5] },
      ],
      seeds: 2, reference: "exact", best: { maximize: "ess_min", at_most: { bias_mean_mean: 0.1 } },
    },
  },
  {
    name: "mamba", help: "A step size by successive halving, scored by the Stein discrepancy; with a check of the variances.",
    doc: {
      kind: "mamba", name: "a step size",
      job: { model: { name: "noisy_normal", noise_scale: 1 }, sampler: { name: "sgbd", variant: "vanilla" }, seed: 1 },
      arms: { from: 0.01, to: 5, count: 10 }, budget: 20000, halving: 3,
    },
  },
  {
    name: "ladder", help: "One job at several step sizes, extrapolated to step size zero: how large the bias of the step size is.",
    doc: { kind: "ladder", job: { model: toy, sampler: { name: "sgbd", variant: "vanilla", step_size: 0.4 }, iterations: 5000, seed: 1 }, factors: [1, 0.5] },
  },
];
