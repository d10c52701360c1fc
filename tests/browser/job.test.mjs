// The page of one job, compared with the daemon's replies.
import assert from "node:assert/strict";
import { assertRounding, inked, live, rowsOf, save, shows, tab } from "./browser.mjs";
import { eventually } from "./daemon.mjs";
import { fillLab } from "./lab.mjs";

let lab;

export async function prepare(daemon) {
  lab = await fillLab(daemon);
}

const plot = (page, title) => page.locator("figure.plot").filter({ has: page.locator("figcaption b").getByText(title, { exact: true }) });

// One column of a saved plot, without empty cells.
function column(csv, name) {
  const lines = csv.toString().trim().split("\n").map((line) => line.split(","));
  const at = lines[0].indexOf(`"${name}"`);
  assert.ok(at > 0, `${name} in ${lines[0]}`);
  return lines.slice(1).filter((line) => line[at] !== "").map((line) => [Number(line[0]), Number(line[at])]);
}

export default {
  async "the verdict and its evidence are shown exactly as the daemon sends them"(t) {
    const page = await t.page(`/jobs/${lab.good.id}`);
    const { verdict, checks } = await t.daemon.get(`/v1/jobs/${lab.good.id}/diagnostics?limit=1`);
    const card = page.getByLabel("Verdict");
    await card.getByText("Evidence").waitFor();
    assert.equal(await card.locator(".sentence").innerText(), verdict.sentence);
    const shown = await card.innerText();
    const { certificate } = checks;
    const words = await page.getByLabel("Checks").innerText();
    const [, mean, sd] = /Certified: means within (\S+) sd \(theta\[\d\]\); sds within (\S+) % \(theta/.exec(words);
    assertRounding(mean, certificate.mean.certified, "certified error of the means");
    assertRounding(sd, 100 * certificate.sd.certified, "certified error of the sds");
    for (const text of [verdict.mixing.text, ...verdict.bias.evidence.map((e) => e.text), ...(verdict.unknown ?? [])]) assert.ok(shown.includes(text), text);
  },

  async "mixing over time, chains and efficiency"(t) {
    const page = await t.page(`/jobs/${lab.good.id}`);
    const { history, efficiency } = await t.daemon.get(`/v1/jobs/${lab.good.id}/diagnostics?limit=1`);
    await inked(plot(page, "Largest R-hat"));
    await inked(plot(page, "Smallest ESS"));
    const note = await plot(page, "Largest R-hat").locator(".plot-note").innerText();
    assertRounding(note.replace("now ", ""), history.max_rhat.at(-1), "R-hat now");
    const saved = await save(page, plot(page, "Largest R-hat"), "CSV");
    assert.deepEqual(column(saved.bytes, "largest R-hat").map(([, y]) => y), history.max_rhat.filter((v) => v !== null));
    const chains = await rowsOf(page.getByLabel("Chains").getByRole("table"));
    assert.deepEqual(chains.map((row) => [row.Chain, row.Iteration, row.Phase]), ["1", "2", "3", "4"].map((n) => [n, "7000 / 7000", "done"]));
    const facts = page.getByLabel("Efficiency").locator("dl > div");
    const fact = (name) => facts.filter({ has: page.locator("dt", { hasText: name }) }).first().locator("dd").innerText();
    assertRounding(await fact("Smallest bulk ESS"), efficiency.min_ess_bulk, "ESS");
    assertRounding(await fact("Largest R-hat"), efficiency.max_rhat, "R-hat");
    assertRounding(await fact("ESS per second"), efficiency.ess_per_second, "ESS per second");
  },

  async "traces of all chains with R-hat and ESS on each, saved as CSV and PNG"(t) {
    const page = await t.page(`/jobs/${lab.good.id}?tab=traces`);
    const summary = await t.daemon.get(`/v1/jobs/${lab.good.id}/summary`);
    for (const row of summary.parameters) {
      const figure = plot(page, row.name);
      await inked(figure);
      await figure.getByText(/^R-hat/).waitFor();
      const [, rhat, bulk, tail] = /R-hat (\S+) · ESS (.+) bulk, (.+) tail/.exec(await figure.locator(".plot-note").innerText());
      assertRounding(rhat, row.rhat, `R-hat of ${row.name}`);
      assertRounding(bulk, row.ess_bulk, `ESS of ${row.name}`);
      assertRounding(tail, row.ess_tail, `tail ESS of ${row.name}`);
    }
    const figure = plot(page, "theta[1]");
    const csv = await save(page, figure, "CSV");
    assert.match(csv.name, /\.csv$/);
    const all = await t.daemon.get(`/v1/jobs/${lab.good.id}/trace?params=theta[1]&max_points=20000&chains=2`);
    const truth = new Map(all.parameters[0].chains[0].iteration.map((x, i) => [x, all.parameters[0].chains[0].value[i]]));
    const points = column(csv.bytes, "chain 2");
    assert.ok(points.length > 100);
    for (const [x, y] of points) assert.equal(y, truth.get(x), `chain 2 at ${x}`);
    const png = await save(page, figure, "PNG");
    assert.match(png.name, /\.png$/);
    assert.equal(png.bytes.subarray(0, 8).toString("latin1"), "\x89PNG\r\n\x1a\n");
    assert.ok(png.bytes.length > 2000);
  },

  async "zooming fetches more points, is kept in the URL, and is reset by Show all"(t) {
    const page = await t.page(`/jobs/${lab.good.id}?tab=traces&params=theta[1],theta[2]`);
    await inked(plot(page, "theta[1]"));
    const over = await plot(page, "theta[1]").locator(".u-over").boundingBox();
    const at = (share) => [over.x + share * over.width, over.y + over.height / 2];
    await page.mouse.move(...at(0.5));
    await page.mouse.down();
    await page.mouse.move(...at(0.6), { steps: 4 });
    await Promise.all([page.waitForResponse((r) => /\/trace\?.*from=\d+&to=\d+/.test(r.url())), page.mouse.up()]);
    await page.waitForURL(/zoom=\d+-\d+/);
    const zoom = /zoom=\d+-\d+/.exec(page.url())[0];
    await plot(page, "theta[2]").getByRole("button", { name: "Show all" }).waitFor(); // they zoom together
    await page.reload();
    await inked(plot(page, "theta[1]"));
    assert.ok(page.url().includes(zoom));
    await plot(page, "theta[1]").getByRole("button", { name: "Show all" }).click();
    await page.waitForURL((url) => !url.hash.includes("zoom"));
  },

  async "densities with the interval of the reference and the biases"(t) {
    const page = await t.page(`/jobs/${lab.good.id}?tab=densities`);
    const summary = await t.daemon.get(`/v1/jobs/${lab.good.id}/summary?reference=exact`);
    await shows(page.getByLabel("Reference"), "exact");
    for (const row of summary.parameters) {
      const figure = plot(page, row.name);
      await inked(figure);
      await figure.getByText(/^bias: mean/).waitFor();
      const [, mean, variance] = /bias: mean (\S+) sd, variance (\S+)%/.exec(await figure.locator(".plot-note").innerText());
      assertRounding(mean, row.reference.bias_mean, `bias of ${row.name}`);
      assertRounding(variance, 100 * row.reference.bias_variance_ratio, `bias of the variance of ${row.name}`);
    }
    const density = (await t.daemon.get(`/v1/jobs/${lab.good.id}/density?params=theta[1]&bins=60`)).parameters[0].density;
    const saved = await save(page, plot(page, "theta[1]"), "CSV");
    assert.deepEqual(column(saved.bytes, "all chains"), density.x.map((x, i) => [x, density.y[i]]));
    await page.getByLabel("Per chain").check();
    await page.getByLabel("Prior").check();
    await plot(page, "theta[1]").locator(".legend").getByText("prior").waitFor();
    await page.waitForURL(/chains=apart/);
  },

  async "the noise view with its advice"(t) {
    const page = await t.page(`/jobs/${lab.coarse.id}?tab=noise`);
    const data = await t.daemon.get(`/v1/jobs/${lab.coarse.id}/diagnostics?order=worst`);
    const table = page.getByRole("table", { name: "Noise tolerance per coordinate" });
    await table.getByText(data.parameters[0].coordinate ?? data.parameters[0].name).waitFor();
    await page.getByText(data.noise.text).waitFor();
    const rows = await rowsOf(table);
    assert.equal(rows.length, data.parameters.length);
    for (const [i, row] of rows.entries()) {
      const truth = data.parameters[i];
      assert.equal(row.Coordinate, truth.coordinate ?? truth.name);
      assertRounding(row.Ratio.replace("×", ""), truth.step_ratio, `ratio of ${truth.name}`);
      assertRounding(row["Step size"], truth.step_size, `step of ${truth.name}`);
      assertRounding(row.Tolerance, truth.tolerance, `tolerance of ${truth.name}`);
      assertRounding(row["Batch needed"], truth.batch_size_needed, `batch of ${truth.name}`);
    }
    assert.equal(await table.getByRole("meter").count(), rows.length);
  },

  async "the table of parameters, worst first; each number is a rounding of the daemon's"(t) {
    const page = await t.page(`/jobs/${lab.good.id}?tab=parameters`);
    const summary = await t.daemon.get(`/v1/jobs/${lab.good.id}/summary?order=worst&reference=exact`);
    const table = page.getByRole("table", { name: "Parameters" });
    await table.getByText("theta[1]").waitFor();
    const rows = await rowsOf(table);
    assert.deepEqual(rows.map((row) => row.Parameter), summary.parameters.map((row) => row.name));
    const columns = { "R-hat": "rhat", "ESS bulk": "ess_bulk", "ESS tail": "ess_tail", Mean: "mean", MCSE: "mcse_mean", SD: "sd", "Mean off": "certified_mean_error", "SD off": "certified_sd_error", "5 %": "q5", "50 %": "q50", "95 %": "q95" };
    for (const [i, row] of rows.entries())
      for (const [head, key] of Object.entries(columns)) assertRounding(row[head], summary.parameters[i][key], `${head} of ${row.Parameter}`);
    await page.getByLabel("Plot theta[2]").check();
    await page.getByRole("button", { name: "Plot 1" }).click();
    await inked(plot(page, "theta[2]"));
    assert.equal(await page.locator(".plots.wide .plot").count(), 1);
  },

  async "held-out metrics, per draw and of the ergodic average"(t) {
    const page = await t.page(`/jobs/${lab.good.id}?tab=metrics`);
    const data = await t.daemon.get(`/v1/jobs/${lab.good.id}/metrics?max_points=1000`);
    for (const name of data.names) {
      await inked(plot(page, name));
      const now = data.chains.map((c) => c.ergodic[name].at(-1));
      const [, low, high] = /ergodic average (\S+) to (\S+)/.exec(await plot(page, name).locator(".plot-note").innerText());
      assertRounding(low, Math.min(...now), `least ${name}`);
      assertRounding(high, Math.max(...now), `largest ${name}`);
    }
  },

  async "the log, the exact request, code snippets and downloads"(t) {
    const page = await t.page(`/jobs/${lab.good.id}?tab=log`);
    const { items } = await t.daemon.get(`/v1/jobs/${lab.good.id}/log?limit=1000`);
    await page.locator(".log li").first().waitFor();
    assert.deepEqual(await page.locator(".log li span").allInnerTexts(), items.map((line) => line.text).reverse());
    await tab(page, "Request & files");
    const job = await t.daemon.get(`/v1/jobs/${lab.good.id}`);
    await page.getByText("Request with all defaults").waitFor();
    assert.deepEqual(JSON.parse(await page.locator(".code.tall").innerText()), job.request);
    await page.getByRole("row", { name: "Seed 3" }).waitFor();
    for (const [language, word] of [["curl", "curl -sf"], ["barker", "barker summary"], ["Python", "urllib.request"], ["R", "read.csv"]]) {
      await tab(page, language);
      const text = await page.locator("pre.code").first().innerText();
      assert.ok(text.includes(word) && text.includes(lab.good.id) && !text.includes(t.daemon.token), language);
    }
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "csv", exact: true }).click()]);
    let size = 0;
    for await (const chunk of await download.createReadStream()) size += chunk.length;
    assert.ok(size > 10000 && download.suggestedFilename().endsWith(".csv"), download.suggestedFilename());
    const names = [];
    page.on("download", (file) => names.push(file.suggestedFilename()));
    await page.getByRole("button", { name: "stan", exact: true }).click();
    await eventually("a file for every chain", () => names.length === job.progress.chains.length);
    assert.deepEqual(names.map((name) => name.slice(-6)).sort(), ["_1.csv", "_2.csv", "_3.csv", "_4.csv"]);
  },

  async "tab, parameters and options are in the URL and survive a reload"(t) {
    const page = await t.page(`/jobs/${lab.good.id}`);
    await live(page);
    await tab(page, "Traces");
    await plot(page, "theta[1]").waitFor();
    await page.getByRole("button", { name: "Remove theta[1]" }).click();
    await page.getByLabel("Warm-up").uncheck();
    await page.waitForURL(/warmup=hidden/);
    const there = page.url();
    assert.match(there, /tab=traces.*params=/);
    await page.reload();
    await plot(page, "theta[2]").waitFor();
    assert.equal(page.url(), there);
    assert.equal(await page.getByRole("tab", { name: "Traces" }).getAttribute("aria-selected"), "true");
    assert.equal(await page.getByLabel("Warm-up").isChecked(), false);
    assert.equal(await page.locator("figcaption b", { hasText: /^theta\[1\]$/ }).count(), 0);
    await page.goBack();
    await page.getByLabel("Verdict").waitFor();
    await page.goto(`${t.daemon.url}/#/jobs?q=Langevin&tag=paper`);
    await page.getByRole("link", { name: lab.coarse.name }).waitFor();
    await page.reload();
    await page.getByRole("link", { name: lab.coarse.name }).waitFor();
    await eventually("one row", async () => (await page.getByRole("table", { name: "Jobs" }).getByRole("link").count()) === 1);
    await shows(page.getByLabel("Tag"), "paper");
    await shows(page.getByLabel("Search name or id"), "Langevin");
  },
};
