// The pages of studies: list, table, picture, actions, a new one.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { assertRounding, inked, save, tab } from "./browser.mjs";
import { eventually } from "./daemon.mjs";

const fixture = (name) => JSON.parse(readFileSync(new URL(`../fixtures/studies/${name}.json`, import.meta.url)));
const long = { kind: "sweep", name: "a long one", job: { model: "skew_normal", sampler: "sgbd", iterations: 100000000, chains: 1, target: { seconds: null } }, grid: [{ "/sampler/step_size": [0.1, 0.2] }] };
const start = async (t, request) => (await t.call("POST", "/v1/studies", request)).id;
const ended = (daemon, id) => eventually(`the study ${id} to end`, async () => {
  const study = await daemon.get(`/v1/studies/${id}`);
  return study.ended_at ? study : null;
});

let sweep, mamba;

export async function prepare(daemon) {
  const ids = [await start(daemon, fixture("sweep")), await start(daemon, fixture("mamba"))];
  [sweep, mamba] = await Promise.all(ids.map((id) => ended(daemon, id)));
}

const settings = (page) => page.getByRole("table", { name: "Settings" });
const asks = (t) => t.allow(/status of 422 .*validate_only=true/);

export default {
  async "the list has a row for each study, and the list of jobs none of their jobs"(t) {
    const page = await t.page("/jobs");
    await page.getByText("No jobs yet").waitFor();
    await page.getByRole("link", { name: "Studies" }).click();
    const row = page.getByRole("row").filter({ hasText: sweep.name });
    await row.getByText("sweep", { exact: true }).waitFor();
    await row.getByText("succeeded").waitFor();
    await row.getByText(`${sweep.progress.ended} / ${sweep.progress.jobs}`).waitFor();
    await page.getByLabel("Kind").selectOption("mamba");
    await row.waitFor({ state: "detached" });
    await page.getByRole("link", { name: mamba.name }).click();
    await page.getByRole("heading", { name: mamba.name }).waitFor();
    await page.getByRole("link", { name: "Jobs", exact: true }).last().click();
    await page.waitForURL(/jobs\?study=/);
    await eventually("ten jobs", async () => (await page.getByRole("table", { name: "Jobs" }).getAttribute("aria-rowcount")) === String(mamba.progress.jobs + 1));
  },

  async "the table of a sweep: numbers, marks, order, jobs, CSV"(t) {
    const page = await t.page(`/studies/${sweep.id}`);
    await page.getByText(sweep.result.sentence).waitFor();
    const { items } = await t.daemon.get(`/v1/studies/${sweep.id}/table`);
    const { best } = sweep.result;
    await page.getByRole("button", { name: "smallest ESS", exact: true }).click(); // the largest first
    await page.waitForURL(/sort=-ess_min/);
    const largest = items.reduce((most, row) => (row.measures.ess_min.value > most.measures.ess_min.value ? row : most));
    const first = settings(page).locator('[aria-rowindex="2"]');
    await eventually("the largest first", async () => (await first.getByRole("cell").first().innerText()) === String(largest.index));
    const heads = await settings(page).getByRole("columnheader").allInnerTexts();
    const at = (name) => first.getByRole("cell").nth(heads.findIndex((h) => h.replace(/ [↑↓]$/, "") === name)).innerText();
    assertRounding((await at("smallest ESS")).split(" ± ")[0], largest.measures.ess_min.value, "ESS");
    assertRounding((await at("bias of means (mean)")).split(" ± ")[0], largest.measures.bias_mean_mean.value, "bias");
    assertRounding(await at("step size"), largest.setting["/sampler/step_size"], "step size");
    const chosen = settings(page).locator(".vrow.marked-best");
    assert.equal(await chosen.getByRole("cell").first().innerText(), String(best.index));
    assert.match(await chosen.innerText(), /best/);
    await chosen.getByRole("link").first().click();
    await page.waitForURL(new RegExp(`/jobs/${items[best.index].jobs[0]}`));
    await page.goBack();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download CSV" }).click()]);
    const csv = readFileSync(await file.path(), "utf8").trim().split("\n");
    assert.equal(csv.length, items.length + 1);
  },

  async "the picture of a sweep: a curve per group, whatever is asked against whatever"(t) {
    const page = await t.page(`/studies/${sweep.id}`);
    await tab(page, "Picture");
    const figure = page.locator("figure.plot");
    await inked(figure);
    const { items } = await t.daemon.get(`/v1/studies/${sweep.id}/table`);
    const csv = (await save(page, figure, "CSV")).bytes.toString().trim().split("\n");
    assert.equal(csv[0], '"bias of means (mean)","vanilla, sgbd","corrected, sgbd","vanilla, sgld"');
    const points = csv.slice(1).flatMap((line) => line.split(",").slice(1).filter(Boolean).map((y) => [Number(line.split(",")[0]), Number(y)]));
    const truth = items.map((row) => [row.measures.bias_mean_mean.value, row.measures.ess_median.value]).sort((a, b) => a[0] - b[0]);
    assert.deepEqual(points, truth);
    await page.getByLabel("Vertical", { exact: true }).selectOption("variance_ratio_median");
    await page.getByLabel("against", { exact: true }).selectOption("/sampler/step_size");
    await figure.getByText("variance ratio (median) against step size").waitFor();
    await inked(figure);
    await tab(page, "Parallel coordinates");
    await eventually("a line for every setting", async () => (await page.locator("svg.parallel path").count()) === items.length);
    await page.getByText(`Best: setting ${sweep.result.best.index}`, { exact: true }).waitFor();
  },

  async "mamba: arms by round, the check beside the score"(t) {
    const page = await t.page(`/studies/${mamba.id}`);
    const rows = page.getByRole("table", { name: "Arms by round" }).locator("tbody tr");
    await rows.first().waitFor();
    assert.equal(await rows.count(), 10);
    const { chosen, arms, cautions } = mamba.result;
    const cells = await rows.nth(chosen.index).locator("td").allInnerTexts();
    assert.equal(cells[1], "chosen");
    assertRounding(cells[0], chosen.step_size, "step size");
    assertRounding(cells.at(-3).split(" ± ")[0], arms[chosen.index].scores.at(-1).fssd, "FSSD");
    assertRounding(cells.at(-2).split(" ± ")[0], arms[chosen.index].scores.at(-1).variance_check, "variance check");
    for (const figure of await page.locator("figure.plot").all()) await inked(figure);
    for (const text of cautions) await page.getByText(text).waitFor();
    assert.doesNotMatch(await page.locator("main").innerText(), /optimal/i);
  },

  async "a running study is paused, resumed, cancelled and deleted; a viewer may do nothing"(t) {
    t.allow(/status of 404 .*\/v1\/studies/);
    const id = await start(t.daemon, { ...long, job: { ...long.job, visibility: "lab" } });
    const page = await t.page(`/studies/${id}`);
    const shown = page.locator(".job-head .mark");
    const act = (name) => page.getByRole("button", { name, exact: true }).click();
    await act("Pause");
    await shown.filter({ hasText: "paused" }).waitFor();
    await act("Resume");
    await shown.filter({ hasText: "running" }).waitFor();
    const guest = await t.page(`/studies/${id}`, { token: await t.daemon.user("vera", "viewer") });
    await guest.getByRole("heading", { name: long.name }).waitFor();
    await guest.getByText("vera").waitFor();
    assert.equal(await guest.getByRole("button", { name: "Cancel" }).count(), 0);
    await act("Cancel");
    await shown.filter({ hasText: "cancelled" }).waitFor();
    await act("Delete…");
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.waitForURL(/#\/studies$/);
    await eventually("no such row", async () => (await page.getByRole("link", { name: long.name }).count()) === 0);
  },

  async "the list and the page follow a sweep to its end"(t) {
    const list = await t.page("/studies"), request = { ...fixture("sweep"), name: "followed", seeds: 1 };
    const page = await t.page(`/studies/${await start(t.daemon, request)}`);
    await list.getByRole("row").filter({ hasText: "followed" }).getByText("succeeded").waitFor();
    await page.locator(".job-head .mark", { hasText: "succeeded" }).waitFor();
    await page.getByText("Biases are against an exact sampler: its job").waitFor();
    await page.getByRole("button", { name: "smallest ESS", exact: true }).click();
    await page.getByRole("button", { name: "smallest ESS ↓", exact: true }).click(); // rows without a value would be last
    await settings(page).evaluate((box) => box.scrollTo(0, box.scrollHeight));
    const last = settings(page).locator('[aria-rowindex="31"]');
    await last.getByText("ended").waitFor();
    await eventually("a value in the last row", async () => /±|\d/.test((await last.getByRole("cell").allInnerTexts()).at(-3)));
    assert.equal(await last.getByText("–", { exact: true }).count(), 0);
  },

  async "actions are there although the user is known after the study, or the job"(t) {
    const job = (await t.daemon.get(`/v1/jobs?study=${mamba.id}&limit=1`)).items[0];
    for (const [where, name] of [[`studies/${sweep.id}`, sweep.name], [`jobs/${job.id}`, job.name]]) {
      const page = await t.page(null);
      let answers = 0; // the second is fetched when the event stream is open; nothing changes after it
      page.on("response", (reply) => { answers += new URL(reply.url()).pathname === `/v1/${where}`; });
      await page.route((url) => url.pathname === "/v1/me", async (route) => {
        await eventually("it, twice", () => answers >= 2);
        await page.getByRole("heading", { name }).waitFor();
        await route.continue();
      });
      await page.goto(`${t.daemon.url}/#/${where}`);
      await page.getByRole("button", { name: "Delete…" }).waitFor();
    }
  },

  async "a study is extended by seeds"(t) {
    const small = { kind: "sweep", name: "to be extended", job: { model: "skew_normal", sampler: "sgbd", iterations: 200, chains: 2, seed: 1 }, grid: [{ "/sampler/step_size": [0.1, 0.2] }] };
    const id = await start(t.daemon, small);
    await ended(t.daemon, id);
    const page = await t.page(`/studies/${id}`);
    await page.getByRole("button", { name: "More seeds…" }).click();
    await page.getByRole("dialog").getByRole("textbox").fill("2");
    await page.getByRole("dialog").getByRole("button", { name: "Extend" }).click();
    await page.getByText("6 of 6 jobs ended").waitFor();
    await eventually("three jobs in each row", async () => (await settings(page).locator('[aria-rowindex="2"]').getByRole("link").count()) === 3);
  },

  async "a study is started from an example; all mistakes are listed with their lines"(t) {
    asks(t);
    const page = await t.page("/studies/new");
    const editor = page.getByLabel("The study as JSON"), lamp = page.locator(".submit-bar .lamp");
    for (const name of ["ladder", "mamba", "sweep"]) {
      await page.getByRole("button", { name, exact: true }).click();
      await eventually(`the example ${name}`, async () => JSON.parse(await editor.inputValue()).kind === name);
      await lamp.filter({ hasText: /^valid, \d+ jobs$/ }).waitFor();
    }
    await editor.fill('{\n  "kind": "sweep",\n  "job": {"model": "skew_normal", "sampler": "sgbd", "iterations": 100},\n  "grid": [{"/sampler/step_sise": [0.1]}],\n  "seeds": 0\n}');
    await lamp.filter({ hasText: /\d errors/ }).waitFor();
    const list = page.locator(".mistakes-list");
    assert.match(await list.innerText(), /line 4, \/grid\/0/);
    await list.getByRole("button", { name: /line 5, \/seeds/ }).click();
    assert.equal(await editor.evaluate((e) => e.value.slice(e.selectionStart, e.selectionEnd)), "0");
    assert.ok(await page.getByRole("button", { name: "Start" }).isDisabled());
    await editor.fill('{"kind": "sweep", "name": "mine", "job": {"model": "skew_normal", "sampler": "sgbd", "iterations": 100}, "grid": [{"/sampler/step_size": [0.1, 0.2]}]}');
    await lamp.filter({ hasText: "valid, 2 jobs" }).waitFor();
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByRole("heading", { name: "mine" }).waitFor();
    await page.locator(".job-head .mark", { hasText: "succeeded" }).waitFor();
  },

  async "a ladder: parameters at both step sizes and at none"(t) {
    const id = await start(t.daemon, { kind: "ladder", name: "by halves", job: { model: "skew_normal", sampler: { name: "sgbd", variant: "vanilla", step_size: 0.4 }, iterations: 2000, seed: 1 }, factors: [1, 0.5] });
    const study = await ended(t.daemon, id);
    const page = await t.page(`/studies/${id}`);
    await page.getByText(study.result.sentence).waitFor();
    const cells = await page.getByRole("table", { name: "Parameters" }).locator("tbody td").allInnerTexts();
    assertRounding(cells[2].split(" ± ")[0], study.result.parameters[0].mean.extrapolated, "mean at step size 0");
    assert.equal(await page.getByRole("table", { name: "Jobs of the ladder" }).getByRole("link").count(), 2);
  },
};
