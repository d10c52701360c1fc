// The page that compares jobs.
import assert from "node:assert/strict";
import { assertRounding, inked, noSidewaysScroll, PHONE, save, shows, tab } from "./browser.mjs";
import { eventually } from "./daemon.mjs";
import { fillLab } from "./lab.mjs";

let lab;

export async function prepare(daemon) {
  lab = await fillLab(daemon);
}

const both = () => `${lab.good.id},${lab.coarse.id}`;

export default {
  async "jobs selected in the list are compared: numbers per job and per parameter"(t) {
    const page = await t.page("/jobs");
    await page.getByLabel(`Compare ${lab.good.name}`).check();
    await page.getByLabel(`Compare ${lab.coarse.name}`).check();
    await page.getByRole("button", { name: "Compare 2" }).click();
    await page.waitForURL(/#\/compare\?jobs=/);
    await page.getByRole("table").first().waitFor();
    await page.getByRole("combobox", { name: "Reference" }).selectOption("exact");
    await page.getByText("Bias of means, mean").first().waitFor();
    const data = await t.daemon.get(`/v1/compare?jobs=${both()}&reference=exact&target_error=0.05`);
    const figures = Object.fromEntries(await page.getByLabel("Figures of each job").locator("tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim())).map(([name, ...rest]) => [name, rest])));
    assert.deepEqual(figures[""], data.jobs.map((job) => job.name));
    for (const [i, job] of data.jobs.entries()) {
      assertRounding(figures.Draws[i], job.draws, "draws");
      assertRounding(figures["Largest R-hat"][i], job.max_rhat, "R-hat");
      assertRounding(figures["Smallest ESS"][i], job.min_ess_bulk, "ESS");
      assertRounding(figures["ESS per second"][i], job.ess_per_second, "ESS per second");
      assertRounding(figures["Bias of means, mean"][i], job.reference.bias_mean.mean, "bias of means");
      const variance = figures["Bias of variances, median"][i], truth = job.reference.bias_variance_ratio.median;
      if (variance.endsWith("×")) assertRounding(variance.replace("×", ""), 1 + truth, "variance, as a multiple");
      else assertRounding(variance.replace("%", ""), 100 * truth, "bias of variances");
    }
    assert.ok(data.jobs[1].reference.bias_variance_ratio.median > data.jobs[0].reference.bias_variance_ratio.median, "the coarse job has the larger bias");
    const rows = await page.getByRole("table").nth(1).locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.querySelectorAll("td")].map((cell) => cell.innerText.trim())));
    const truth = data.parameters.flatMap((p) => p.jobs);
    assert.equal(rows.length, truth.length);
    for (const [i, [, mean, sd, q5, q50, q95, rhat, ess]] of rows.entries())
      for (const [text, key] of [[mean, "mean"], [sd, "sd"], [q5, "q5"], [q50, "q50"], [q95, "q95"], [rhat, "rhat"], [ess, "ess_bulk"]]) assertRounding(text, truth[i][key], `${key} in row ${i}`);
    await page.reload();
    await page.getByText("Bias of means, mean").first().waitFor();
    await shows(page.getByRole("combobox", { name: "Reference" }), "exact");
  },

  async "densities of both jobs in one plot, with the reference"(t) {
    const page = await t.page(`/compare?jobs=${both()}&reference=exact`);
    await tab(page, "Densities");
    await page.getByText("wider densities extend beyond this range").first().waitFor();
    await page.getByRole("button", { name: "Show all" }).first().click();
    await page.locator("figure.plot").nth(2).waitFor();
    for (const figure of await page.locator("figure.plot").all()) await inked(figure);
    const csv = (await save(page, page.locator("figure.plot").first(), "CSV")).bytes.toString().split("\n");
    assert.equal(csv[0], `"value","${lab.good.name}","${lab.coarse.name}"`);
    assert.ok(csv.length > 100);
    const name = await page.locator("figure.plot figcaption b").first().innerText();
    await page.getByRole("button", { name: `Remove ${name}` }).click();
    await eventually("one plot less", async () => (await page.locator("figure.plot").count()) === 2);
    await page.waitForURL(/show=/);
  },

  async "metrics over iterations or CPU time"(t) {
    const page = await t.page(`/compare?jobs=${both()}&tab=metrics`);
    await inked(page.locator("figure.plot").first());
    await page.getByLabel("x axis").selectOption("seconds");
    await inked(page.locator("figure.plot").first());
    await page.waitForURL(/x=seconds/);
    const csv = (await save(page, page.locator("figure.plot").first(), "CSV")).bytes.toString();
    assert.match(csv, /CPU seconds/);
  },

  async "ESS versus bias: one point per job"(t) {
    const page = await t.page(`/compare?jobs=${both()},${lab.exact.id}&tab=scatter`);
    await page.getByText("No reference selected").waitFor();
    await page.getByRole("combobox", { name: "Reference" }).selectOption("exact");
    const figure = page.locator("figure.plot");
    await inked(figure);
    await page.getByText("Not shown: exact. A bias of 0").waitFor();
    await page.getByLabel("Axes").selectOption("linear");
    const data = await t.daemon.get(`/v1/compare?jobs=${both()},${lab.exact.id}&reference=exact`);
    const csv = (await save(page, figure, "CSV")).bytes.toString().trim().split("\n");
    const points = csv.slice(1).map((line) => line.split(",").filter(Boolean).map(Number)).sort((a, b) => a[0] - b[0]);
    const truth = data.jobs.map((j) => [j.reference.bias_mean.mean, j.ess_per_second]).sort((a, b) => a[0] - b[0]);
    assert.deepEqual(points, truth);
    await page.getByLabel("Bias", { exact: true }).selectOption("bias_variance_ratio");
    await page.waitForURL(/bias=bias_variance_ratio/);
    await inked(figure);
  },

  async "jobs are added by id and removed; one job alone shows a hint; an unknown id is reported"(t) {
    t.allow(/status of (404|422) .*\/v1\/compare/);
    const page = await t.page(`/compare?jobs=${lab.good.id}`);
    await page.getByText("One is selected.").waitFor();
    const add = async (id) => {
      await page.getByLabel("Add a job by its id").fill(id);
      await page.keyboard.press("Enter");
    };
    await add(lab.coarse.id);
    await page.getByRole("table").first().waitFor();
    await page.getByRole("button", { name: `Remove ${lab.good.name}` }).click();
    await page.waitForURL((url) => !url.hash.includes(lab.good.id));
    await add("0000000000000000");
    await page.locator(".state.bad").waitFor();
  },

  async "a narrow screen does not scroll sideways"(t) {
    const page = await t.page(`/compare?jobs=${both()}&reference=exact`, { viewport: PHONE });
    await page.getByRole("table").first().waitFor();
    assert.equal(await noSidewaysScroll(page), true);
    await tab(page, "Densities");
    await inked(page.locator("figure.plot").first());
    assert.equal(await noSidewaysScroll(page), true);
  },
};
