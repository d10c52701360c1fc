// Jobs with automatic settings: the form, the plan on the job page, clones.
import assert from "node:assert/strict";
import { live, rowsOf, shows, tab } from "./browser.mjs";
import { eventually, logisticCsv } from "./daemon.mjs";

let planned;

export async function prepare(daemon) {
  daemon.file("train.csv", logisticCsv(600));
  planned = await daemon.run({ name: "left to the daemon", model: "logistic", data: { path: "train.csv" }, sampler: "sgbd", target: { seconds: 2 }, seed: 3 });
}

const asks = (t) => t.allow(/status of 422 .*validate_only=true/);
const field = (page, at) => page.locator(`[data-at="${at}"]`);
const valid = (page) => page.locator(".lamp", { hasText: /^valid/ }).waitFor();
const fact = (card, name) => card.locator("dl > div").filter({ has: card.page().locator("dt", { hasText: name }) }).first().locator("dd").innerText();

// Replaces fields of the daemon's reply for the job by those of `change`.
async function withJob(page, id, change) {
  await page.route((url) => url.pathname === `/v1/jobs/${id}`, async (route) => {
    const { "if-none-match": known, ...headers } = route.request().headers(); // a reply with status 304 has no body
    const reply = await route.fetch({ headers });
    await route.fulfill({ response: reply, json: { ...(await reply.json()), ...change } });
  });
}

export default {
  async "the form marks automatic settings, and only these"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("logistic");
    await field(page, "/data/path").selectOption("train.csv");
    await page.locator(".lamp", { hasText: /^valid, at most/ }).waitFor();
    for (const at of ["/iterations", "/warmup", "/thin", "/batch_size"]) assert.equal(await field(page, at).getAttribute("placeholder"), "auto", at);
    await field(page, "/target/sd_error").fill("0.05");
    await field(page, "/gradient/estimator").selectOption("control_variate");
    await field(page, "/gradient/centre").selectOption("pilot");
    await field(page, "/gradient/one_in").fill("8");
    await field(page, "/precondition").selectOption("dense");
    await field(page, "/iterations").fill("auto");
    await valid(page);
    const editor = page.getByLabel("The job as JSON");
    await eventually("all of it in the JSON", async () => {
      const { gradient, precondition, target, iterations } = JSON.parse(await editor.inputValue());
      return JSON.stringify([gradient, precondition, target, iterations]) === JSON.stringify([{ estimator: "control_variate", centre: "pilot", one_in: 8 }, "dense", { sd_error: 0.05 }, "auto"]);
    });
    await field(page, "/iterations").fill("automatic");
    await page.getByText("“automatic” is not a number").waitFor();
    await editor.fill('{"model": "logistic", "data": {"path": "train.csv"}, "sampler": {"name": "sgbd", "step_size": 0.05}}');
    await page.locator(".lamp", { hasText: /^valid, about/ }).waitFor();
    assert.match(await field(page, "/precondition").locator("option").first().innerText(), /default: none/);
    assert.equal(await field(page, "/iterations").getAttribute("placeholder"), "10000");
    await field(page, "/target/sd_error").waitFor({ state: "detached" });
  },

  async "“No time limit” is checked until seconds are entered"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("skew_normal");
    await valid(page);
    const tick = page.getByLabel("No time limit"), editor = page.getByLabel("The job as JSON");
    const target = (wanted) => eventually("the JSON with it", async () => JSON.stringify(JSON.parse(await editor.inputValue()).target) === wanted);
    assert.equal(await tick.isChecked(), false);
    await tick.check();
    await target('{"seconds":null}');
    assert.equal(await field(page, "/target/seconds").getAttribute("placeholder"), "no limit");
    await valid(page);
    await field(page, "/target/seconds").fill("5");
    await target('{"seconds":5}');
    assert.equal(await tick.isChecked(), false);
    await tick.check();
    await target('{"seconds":null}');
    assert.equal(await field(page, "/target/seconds").inputValue(), "");
    await tick.uncheck();
    await target(undefined);
    assert.equal(await field(page, "/target/seconds").getAttribute("placeholder"), "60");
  },

  async "an error in the target is shown at its field"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("skew_normal");
    await valid(page);
    await field(page, "/target/sd_error").fill("7");
    await field(page, "/target/sd_error").locator("xpath=ancestor::label").locator(".problem").waitFor();
    await page.locator(".lamp", { hasText: "1 error" }).waitFor();
    assert.equal(await field(page, "/gradient/estimator").count(), 0, "without data there is no gradient noise");
  },

  async "the plan shows every choice and reason of the daemon"(t) {
    const page = await t.page(`/jobs/${planned.id}`);
    const { plan, request } = await t.daemon.get(`/v1/jobs/${planned.id}`);
    assert.equal(plan.state, "ready");
    const card = page.getByLabel("Plan", { exact: true });
    await card.getByText("Details").click();
    const shown = await card.innerText();
    for (const line of plan.why) assert.ok(shown.includes(line), line);
    const plain = (text) => Number(text.replace(/\s/g, ""));
    assert.equal(plain(await fact(card, /^iterations/)), request.iterations);
    assert.equal(plain(await fact(card, /^warm-up/)), request.warmup);
    assert.ok(request.gradient.one_in > 1, "with this many rows, not every iteration reads a batch");
    assert.match(await fact(card, /^batch size/), new RegExp(`in 1 of ${request.gradient.one_in} iterations`));
    assert.ok(plan.auto.includes("iterations"));
    assert.match(shown, /^iterations$/im, "not “iterations (set in the request)”");
    assert.match(shown, plan.target_met ? /Target expected to be met/ : /Target not expected to be met/);
    const length = await page.locator(".job-head .facts").innerText();
    assert.match(length.replace(/[\s\u202f]/g, ""), new RegExp(`of${request.warmup}\\+${request.iterations}iterations`));
  },

  async "during planning the page shows the current step, and updates without a reload"(t) {
    const page = await t.page(null);
    const pending = { state: "running", phase: "planning", reason: "Newton step 3, gradient 0.12", plan: { state: "pending", auto: ["step_size", "iterations", "warmup"] }, progress: null };
    const open = { ...planned.request, iterations: "auto", warmup: "auto", thin: "auto", batch_size: "auto" };
    await withJob(page, planned.id, { ...pending, request: open });
    await page.goto(`${t.daemon.url}/#/jobs/${planned.id}`);
    const card = page.getByLabel("Plan", { exact: true });
    await card.getByText("Newton step 3, gradient 0.12").waitFor();
    await card.getByText("Chosen automatically: step size, iterations and warm-up.").waitFor();
    await page.locator(".job-head").getByText("length automatic").waitFor();
    await page.locator(".job-head").getByText("batch size automatic").waitFor();
    await tab(page, "Traces");
    await page.getByText("No draws yet").waitFor();
    await tab(page, "Overview");
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await live(page);
    await page.reload();
    await card.getByText("Details").waitFor();
  },

  async "a job that failed during planning does not show pending results"(t) {
    const page = await t.page(null);
    const failed = { state: "failed", reason: "no point of finite density", verdict: null, plan: { state: "pending", auto: ["step_size"] }, progress: null };
    await withJob(page, planned.id, failed);
    await page.goto(`${t.daemon.url}/#/jobs/${planned.id}`);
    await page.getByLabel("Plan", { exact: true }).getByText("The job ended before the plan was complete.").waitFor();
    await page.getByText("The job ended before its first draws after warm-up.").waitFor();
    await tab(page, "Traces");
    await page.getByText("The job ended before its first draw: no point of finite density.").waitFor();
    await withJob(page, planned.id, { request: { ...planned.request, save: { params: [] } } });
    await page.reload();
    await page.getByText("The job stores no draws (save.params is empty).").waitFor();
    t.allow(/status of 404 .*2fZtPUqKzTqXJtNyv2ppdN/);
    await page.goto(`${t.daemon.url}/#/jobs/2fZtPUqKzTqXJtNyv2ppdN`);
    await page.locator(".page").getByRole("link", { name: "All jobs" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Try again" }).count(), 0);
    await page.unrouteAll({ behavior: "ignoreErrors" });
  },

  async "the page follows planning from start to end"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("logistic");
    await field(page, "/data/path").selectOption("train.csv");
    await field(page, "/target/seconds").fill("1");
    await field(page, "/name").fill("planned and watched");
    await valid(page);
    await page.getByRole("button", { name: "Submit" }).click();
    await page.getByRole("heading", { name: "planned and watched" }).waitFor();
    await page.locator(".job-head .mark", { hasText: "succeeded" }).waitFor();
    const job = await t.daemon.get(`/v1/jobs/${page.url().split("/").at(-1)}`);
    const card = page.getByLabel("Plan", { exact: true });
    await card.getByText(job.plan.why[0], { exact: true }).waitFor();
    await tab(page, "Log");
    await page.getByText(job.plan.why[0]).first().waitFor();
  },

  async "a clone has the chosen values of the original, or resets them to automatic"(t) {
    asks(t);
    const page = await t.page(`/jobs/${planned.id}`);
    await page.getByRole("button", { name: "Clone…" }).click();
    await page.getByText("copy of").waitFor();
    await shows(field(page, "/iterations"), String(planned.request.iterations));
    await valid(page);
    const editor = page.getByLabel("The job as JSON");
    assert.equal(JSON.parse(await editor.inputValue()).iterations, planned.request.iterations);
    await page.getByRole("button", { name: "Reset to automatic" }).click();
    await shows(field(page, "/iterations"), "");
    await page.locator(".lamp", { hasText: /^valid, at most/ }).waitFor();
    const doc = JSON.parse(await editor.inputValue());
    for (const name of planned.plan.auto) assert.ok(!(name in doc), name);
    assert.equal(doc.sampler.step_size, undefined);
    assert.equal(await page.getByRole("button", { name: "Reset to automatic" }).count(), 0);
  },

  async "whitened coordinates have their own names"(t) {
    const page = await t.page(`/jobs/${planned.id}?tab=noise`);
    const table = page.getByRole("table", { name: "Noise tolerance per coordinate" });
    await table.locator(".vrow code").first().waitFor();
    const { parameters } = await t.daemon.get(`/v1/jobs/${planned.id}/diagnostics?order=worst`);
    assert.deepEqual((await rowsOf(table)).map((row) => row.Coordinate), parameters.map((p) => p.coordinate ?? p.name));
  },

  async "the energy of the draws is shown beside that of the plan"(t) {
    const { checks } = await t.daemon.get(`/v1/jobs/${planned.id}/diagnostics?limit=1`);
    const page = await t.page(`/jobs/${planned.id}`);
    const card = page.getByLabel("Checks");
    await card.waitFor();
    const shown = await card.innerText();
    assert.equal(/\|u\|²\/d of the draws/.test(shown), checks.energy?.whitened !== undefined, JSON.stringify(checks.energy));
  },
};
