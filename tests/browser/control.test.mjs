// Actions on jobs, permissions, live updates, and markup in the fields of jobs.
import assert from "node:assert/strict";
import { live } from "./browser.mjs";
import { eventually } from "./daemon.mjs";

const endless = (fields) => ({ model: "skew_normal", sampler: "sgbd", warmup: 1000, iterations: 90000000000, thin: 100000, chains: 1, seed: 1, ...fields });
const short = (fields) => ({ model: "skew_normal", sampler: "sgbd", iterations: 400, chains: 2, seed: 1, ...fields });

const state = (page, word) => page.locator(".job-head .mark", { hasText: word }).waitFor();
const press = (page, name) => page.locator(".job-head").getByRole("button", { name, exact: true }).click();
const row = (page, name) => page.getByRole("table", { name: "Jobs" }).getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });

async function menu(page, name, item) {
  await row(page, name).getByRole("button", { name: `Actions on ${name}` }).click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
}

export default {
  async "pause, resume, cancel, extend and delete on the job's page"(t) {
    const id = await t.daemon.submit(endless({ name: "steered" }));
    const page = await t.page(`/jobs/${id}`);
    await state(page, "running");
    await press(page, "Pause");
    await state(page, "paused");
    await t.daemon.wait(id, "paused");
    await press(page, "Resume");
    await state(page, "running");
    await press(page, "Cancel");
    await state(page, "cancelled");
    await page.getByText("The draws so far are kept.").waitFor();

    const other = (await t.daemon.run(short({ name: "extended" }))).id;
    await page.goto(`${t.daemon.url}/#/jobs/${other}`);
    await state(page, "succeeded");
    await press(page, "Extend…");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Additional iterations per chain").fill("no number");
    await dialog.getByRole("button", { name: "Extend" }).click();
    await dialog.getByText("Enter a whole number of at least 1.").waitFor();
    await dialog.getByLabel("Additional iterations per chain").fill("600");
    await dialog.getByRole("button", { name: "Extend" }).click();
    await page.getByText("of 1000 iterations").or(page.getByText("+ 1000 iterations")).first().waitFor();
    await eventually("the longer run", async () => {
      const job = await t.daemon.get(`/v1/jobs/${other}`);
      return job.state === "succeeded" && job.request.iterations === 1000;
    });
    await state(page, "succeeded");

    await press(page, "Delete…");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assert.equal((await t.daemon.get(`/v1/jobs/${other}`)).state, "succeeded", "not deleted before the confirmation");
    await press(page, "Delete…");
    await dialog.getByText("Its draws move to the trash").waitFor();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await page.waitForURL(/#\/jobs$/);
    await row(page, "steered").waitFor();
    await row(page, "extended").waitFor({ state: "detached" });
  },

  async "the same actions from the list, and restoring from the trash"(t) {
    await t.daemon.submit(endless({ name: "listed" }));
    const page = await t.page("/jobs");
    await row(page, "listed").getByText("running").waitFor();
    await menu(page, "listed", "Pause");
    await row(page, "listed").getByText("paused").waitFor();
    await menu(page, "listed", "Resume");
    await row(page, "listed").getByText("running").waitFor();
    await menu(page, "listed", "Cancel");
    await row(page, "listed").getByText("cancelled").waitFor();
    await menu(page, "listed", "Delete…");
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await row(page, "listed").waitFor({ state: "detached" });
    await page.getByLabel("Trash").check();
    await row(page, "listed").waitFor();
    await menu(page, "listed", "Restore");
    await row(page, "listed").waitFor({ state: "detached" });
    await page.getByLabel("Trash").uncheck();
    await row(page, "listed").waitFor();
  },

  async "a reply older than the events received before it changes nothing"(t) {
    const [id, other] = [await t.daemon.submit(endless({ name: "overtaken" })), await t.daemon.submit(endless({ name: "beside it" }))];
    const page = await t.page("/jobs");
    await live(page);
    for (const name of ["overtaken", "beside it"]) await row(page, name).getByText("running").waitFor();
    await page.route("**/cancel", async (route) => {
      const answer = await route.fetch();
      await t.daemon.wait(id, "cancelled");
      await row(page, "overtaken").getByText("cancelled").waitFor();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), state: "cancelling" } });
    });
    await menu(page, "overtaken", "Cancel");
    await page.getByText("The draws so far are kept.").waitFor();
    await t.daemon.call("POST", `/v1/jobs/${other}/pause`);
    await row(page, "beside it").getByText("paused").waitFor(); // earlier events are shown too by then
    assert.equal(await row(page, "overtaken").getByText("cancelled").count(), 1);
    await t.daemon.call("POST", `/v1/jobs/${other}/cancel`);
  },

  async "jobs appear, run and end in the list without a reload"(t) {
    const page = await t.page("/jobs");
    await live(page);
    const id = await t.daemon.submit(short({ name: "comes by itself", iterations: 3000, thin: 3 }));
    await row(page, "comes by itself").getByText("succeeded").waitFor();
    const job = await t.daemon.wait(id, "succeeded");
    await row(page, "comes by itself").getByText(job.summary.max_rhat.toFixed(3)).waitFor();
    await page.getByRole("button", { name: "Pause updates" }).click();
    await page.locator('.lamp[data-state="paused"]').waitFor();
    await t.daemon.run(short({ name: "while paused" }));
    assert.equal(await row(page, "while paused").count(), 0);
    await page.getByRole("button", { name: "Resume updates" }).click();
    await row(page, "while paused").waitFor();
  },

  async "without an event stream the page polls, and shows this"(t) {
    t.allow(/status of 503 .*\/v1\/events/);
    const page = await t.page(null);
    await page.route("**/v1/events", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: '{"detail": "no streams today"}' }));
    await page.goto(`${t.daemon.url}/#/jobs`);
    await page.locator('.lamp[data-state="polling"]').waitFor();
    await t.daemon.run(short({ name: "seen by asking" }));
    await row(page, "seen by asking").waitFor();
    await page.unroute("**/v1/events");
    await live(page);
  },

  async "a viewer sees no actions"(t) {
    await t.daemon.run(short({ name: "of the lab", visibility: "lab" }));
    const token = await t.daemon.user("vera", "viewer");
    const page = await t.page("/jobs?owner=all", { token });
    await row(page, "of the lab").waitFor();
    assert.equal(await page.getByRole("button", { name: /^Actions on/ }).count(), 0);
    assert.equal(await page.getByRole("link", { name: "New job" }).count(), 0);
    await row(page, "of the lab").getByRole("link").click();
    await page.getByLabel("Verdict").waitFor();
    const buttons = await page.locator(".job-head").getByRole("button").allInnerTexts();
    assert.deepEqual(buttons, ["Compare"]);
    await page.goto(`${t.daemon.url}/#/new`);
    await page.getByText("Viewers cannot submit jobs").waitFor();
    await page.goto(`${t.daemon.url}/#/server`);
    await page.getByRole("tab", { name: "Queue" }).waitFor();
    assert.equal(await page.getByRole("tab", { name: "Users" }).count(), 0);
  },

  async "markup in names, tags and notes is shown as text everywhere"(t) {
    const name = `<script>alert("1")</script> & 'q' "<img src=x onerror=alert(2)>`;
    const tag = `<b>"t"</b>`;
    const spec = short({ name, tags: [tag], note: `<iframe src=//example.org></iframe>`, visibility: "lab" });
    const [one, two] = [await t.daemon.run(spec), await t.daemon.run({ ...spec, seed: 2 })];
    const page = await t.page("/jobs");
    const text = (where) => page.getByText(name, { exact: true }).first().waitFor().catch((e) => { throw new Error(`${where}: ${e.message}`); });
    await text("list");
    await page.getByRole("button", { name: tag, exact: true }).first().waitFor();
    for (const [place, where] of Object.entries({ [`/jobs/${one.id}`]: "job", [`/jobs/${one.id}?tab=export`]: "request", [`/compare?jobs=${one.id},${two.id}`]: "compare", [`/compare?jobs=${one.id},${two.id}&tab=densities`]: "densities", "/server": null, "/jobs?owner=all": "all users" })) {
      await page.goto(`${t.daemon.url}/#${place}`);
      if (where) await text(where);
      else await page.getByRole("tab", { name: "Queue" }).waitFor();
      assert.equal(await page.evaluate(() => document.querySelectorAll("main script, main iframe, main img, main b > b").length), 0, place);
    }
    await page.goto(`${t.daemon.url}/#/jobs/${one.id}`);
    await page.getByText("<iframe src=//example.org></iframe>").waitFor();
    await press(page, "Delete…");
    await page.getByRole("dialog").getByText(name).waitFor();
    await page.keyboard.press("Escape");
    await press(page, "Clone…");
    await page.waitForFunction((n) => document.querySelector('[data-at="/name"]')?.value === n, name);
  },

  async "editing name, tags and note"(t) {
    const { id } = await t.daemon.run(short({ name: "before" }));
    const page = await t.page(`/jobs/${id}`);
    await press(page, "Edit…");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("after");
    await dialog.getByLabel("Tags").fill("one, two");
    await dialog.getByLabel("Note").fill("the one for the paper");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "after" }).waitFor();
    await page.getByText("the one for the paper").waitFor();
    const job = await t.daemon.get(`/v1/jobs/${id}`);
    assert.deepEqual([job.name, job.tags, job.note], ["after", ["one", "two"], "the one for the paper"]);
  },
};
