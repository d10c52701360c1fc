import assert from "node:assert/strict";
import { priorOf } from "../../clients/web/src/pages/job/prior.js";

const MODEL = {
  name: "linear_regression",
  prior: [{ block: "theta", family: "normal", mean: 0.5, sd: "prior_sd" }, { block: "log_sigma", family: "log_exponential", mean: "sigma_mean", sd: null }, { block: "U", family: "hierarchical", mean: null, sd: null }],
};

const integral = (density, from, to, steps = 4000) => Array.from({ length: steps }, (_, i) => density(from + ((i + 0.5) * (to - from)) / steps)).reduce((a, b) => a + b, 0) * ((to - from) / steps);

export default {
  "a normal prior takes its sd from the settings of the job": () => {
    const density = priorOf(MODEL, { prior_sd: 2 }, "theta[2]");
    assert.ok(Math.abs(density(0.5) - 1 / (2 * Math.sqrt(2 * Math.PI))) < 1e-12);
    assert.ok(Math.abs(integral(density, -30, 30) - 1) < 1e-9);
  },
  "a setting may be a list with one number per element": () => {
    const settings = { prior_sd: [1, 2.385] };
    assert.equal(priorOf(MODEL, settings, "theta[2]")(0), priorOf(MODEL, { prior_sd: 2.385 }, "theta[2]")(0));
    assert.equal(priorOf(MODEL, settings, "theta[3]"), null, "beyond the list");
  },
  "the logarithm of an exponential variable": () => {
    const density = priorOf(MODEL, { sigma_mean: 1.7 }, "log_sigma");
    assert.ok(Math.abs(integral(density, -40, 6) - 1) < 1e-6);
    assert.ok(Math.abs(integral((x) => Math.exp(x) * density(x), -40, 6) - 1.7) < 1e-6);
  },
  "no curve if the prior is not known": () => {
    for (const [model, settings, name] of [[MODEL, { prior_sd: 1 }, "U[1,2]"], [MODEL, {}, "theta[1]"], [MODEL, { prior_sd: 1 }, "psi"], [{ name: "old" }, { prior_sd: 1 }, "theta[1]"], [null, null, "theta[1]"], [MODEL, { prior_sd: 0 }, "theta[1]"]])
      assert.equal(priorOf(model, settings, name), null, name);
  },
};
