// The form for new jobs.
import assert from "node:assert/strict";
import { live, shows } from "./browser.mjs";
import { eventually, logisticCsv } from "./daemon.mjs";

export function prepare(daemon) {
  daemon.file("train.csv", logisticCsv(300));
}

// The form's validation requests are answered with 422 while the draft has errors.
const asks = (t) => t.allow(/status of 422 .*validate_only=true/);

const field = (page, at) => page.locator(`[data-at="${at}"]`);
const problem = (page, at) => field(page, at).locator("xpath=ancestor::label").locator(".problem");

async function submit(page) {
  await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
  await page.getByRole("button", { name: "Submit" }).click();
  await page.waitForURL(/#\/jobs\/[^?]+$/);
  return page.url().split("/").at(-1);
}

export default {
  async "a toy model: submitted with the form, followed until it ends"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("skew_normal");
    await field(page, "/name").fill("from the form");
    await field(page, "/tags").fill("toy, browser");
    await field(page, "/model/alpha").fill("3");
    await field(page, "/iterations").fill("200000");
    await field(page, "/chains").fill("2");
    await field(page, "/thin").fill("20");
    await field(page, "/seed").fill("7");
    const id = await submit(page);
    await page.getByRole("heading", { name: "from the form" }).waitFor();
    const states = new Set();
    await eventually("the end of the job on the page", async () => {
      states.add(await page.locator(".job-head .mark").innerText());
      return states.has("succeeded");
    });
    await page.getByLabel("Verdict").getByText(/^mixing: /).first().waitFor();
    await page.getByText("100% of").waitFor();
    const job = await t.daemon.get(`/v1/jobs/${id}`);
    assert.equal(job.state, "succeeded");
    assert.deepEqual([job.request.model.name, job.request.model.alpha, job.request.iterations, job.request.chains, job.request.thin, job.request.seed],
      ["skew_normal", 3, 200000, 2, 20, 7]);
    assert.deepEqual(job.tags, ["toy", "browser"]);
  },

  async "logistic regression on a file, with a preview of its columns"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("logistic");
    await field(page, "/data/path").selectOption("train.csv");
    const preview = page.getByRole("region", { name: "First rows of train.csv" });
    await preview.waitFor();
    await eventually("the columns", async () => /y\s+response\s+x1\s+x2\s+x3/.test(await preview.innerText()));
    await page.getByText("300 rows", { exact: true }).waitFor();
    await field(page, "/name").fill("logistic from the form");
    await field(page, "/batch_size").fill("30");
    await field(page, "/iterations").fill("2000");
    const id = await submit(page);
    const job = await t.daemon.wait(id, "succeeded");
    assert.deepEqual([job.request.data.path, job.request.batch_size, job.name], ["train.csv", 30, "logistic from the form"]);
    await page.locator(".job-head .mark", { hasText: "succeeded" }).waitFor();
  },

  async "an offset is not a covariate, and prior scales may be one per covariate"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("poisson");
    await field(page, "/data/path").selectOption("train.csv");
    await field(page, "/data/offset").selectOption("x3");
    await field(page, "/model/prior_sd").fill("1, 2.5");
    await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
    await eventually("x3 as the offset", async () => /x3\s+offset/.test(await page.getByRole("region", { name: "First rows of train.csv" }).innerText()));
    const doc = JSON.parse(await page.getByLabel("The job as JSON").inputValue());
    assert.deepEqual([doc.data.offset, doc.model.prior_sd], ["x3", [1, 2.5]]);
    await field(page, "/data/columns").selectOption("some");
    assert.deepEqual(await page.getByRole("group", { name: "Columns used" }).locator(".chip").allInnerTexts(), ["x1", "x2"]);
    await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
    await field(page, "/model/prior_sd").fill("1, 2, 3");
    await problem(page, "/model/prior_sd").waitFor();
  },

  async "errors appear at their fields during typing, and disappear"(t) {
    asks(t);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("skew_normal");
    await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
    await field(page, "/iterations").fill("-5");
    await problem(page, "/iterations").waitFor();
    assert.equal(await field(page, "/iterations").getAttribute("aria-invalid"), "true");
    await page.locator(".lamp", { hasText: "1 error" }).waitFor();
    await field(page, "/chains").fill("100000");
    await problem(page, "/chains").waitFor();
    await page.locator(".lamp", { hasText: "2 errors" }).waitFor();
    await field(page, "/iterations").fill("1000");
    await problem(page, "/iterations").waitFor({ state: "detached" });
    await field(page, "/chains").fill("2");
    await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
    assert.equal((await t.daemon.get("/v1/jobs?q=mistake")).items.length, 0);
    await field(page, "/model/noise_sd").fill("much");
    await problem(page, "/model/noise_sd").getByText("is not a number").waitFor();
    await page.locator(".lamp", { hasText: "1 error" }).waitFor();
    await page.getByRole("button", { name: "Submit" }).click();
    await page.waitForFunction(() => document.activeElement.dataset.at === "/model/noise_sd");
  },

  async "form and JSON stay in sync"(t) {
    asks(t);
    const page = await t.page("/new");
    const editor = page.getByLabel("The job as JSON");
    await field(page, "/model").selectOption("skew_normal");
    await field(page, "/iterations").fill("1234");
    await eventually("1234 in the JSON", async () => JSON.parse(await editor.inputValue()).iterations === 1234);
    await editor.fill('{"model": "skew_normal", "sampler": "mala", "iterations": 777, "chains": 3}');
    await shows(field(page, "/iterations"), "777");
    await shows(field(page, "/sampler"), "mala");
    await editor.fill('{"model": "skew_normal",');
    await page.getByText(/^Line 1, column \d+/).waitFor();
    await eventually("nothing to submit", () => page.getByRole("button", { name: "Submit" }).isDisabled());
    await page.getByRole("button", { name: "Undo" }).click();
    await shows(field(page, "/iterations"), "777");
    await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
  },

  async "a clone starts with the request of the original"(t) {
    asks(t);
    const id = await t.daemon.submit({ name: "original", model: { name: "skew_normal", alpha: 2.5 }, sampler: { name: "sgld", step_size: 0.25 }, iterations: 321, chains: 3, seed: 5 });
    const page = await t.page(`/jobs/${id}`);
    await page.getByRole("button", { name: "Clone…" }).click();
    await page.getByText("copy of").waitFor();
    await shows(field(page, "/iterations"), "321");
    await shows(field(page, "/model/alpha"), "2.5");
    await shows(field(page, "/sampler"), "sgld");
    const copy = await t.daemon.get(`/v1/jobs/${await submit(page)}`);
    assert.notEqual(copy.id, id);
    assert.deepEqual([copy.request.sampler.step_size, copy.request.chains], [0.25, 3]);
    await live(page);
  },
};
