// Much: 52 580 parameters, a million draws. What frames take is printed, not asserted.
import assert from "node:assert/strict";
import { coloursOf } from "./browser.mjs";
import { eventually, logisticCsv, ratingsCsv } from "./daemon.mjs";

export const settings = { slice_ms: 500 };

const PARAMETERS = 52580; // 20 x (943 users + 1682 items) + 4 x 20 precisions and means

let wide, long;

export async function prepare(daemon) {
  daemon.file("ratings.csv", ratingsCsv(943, 1682, 4000));
  daemon.file("train.csv", logisticCsv(100));
  [wide, long] = await Promise.all([
    daemon.submit({ name: "ratings", model: { name: "matrix_factorization", rank: 20 }, data: { path: "ratings.csv" }, sampler: { name: "sgbd", step_size: 0.02 }, batch_size: 400, warmup: 4, iterations: 24, thin: 2, chains: 2, check_draws: 0, seed: 1 }),
    daemon.submit({ name: "a million draws", model: "logistic", data: { path: "train.csv" }, sampler: { name: "sgbd", step_size: 0.3 }, batch_size: 10, warmup: 1000, iterations: 250000, chains: 4, check_draws: 0, seed: 1 }),
  ]);
  await daemon.wait(wide, "succeeded");
  await daemon.wait(long, "succeeded");
}

const say = (what, times) => {
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.floor(share * (times.length - 1))].toFixed(1);
  console.log(`frames, ${what}: median ${at(0.5)} ms, 95 % ${at(0.95)} ms, largest ${at(1)} ms of ${times.length}`);
};

// Says how long frames take while something is scrolled a little before each.
async function scroll(page, what, selector) {
  say(what, await page.locator(selector).evaluate(async (box) => {
    const times = [];
    for (let i = 0, last = performance.now(); i < 90; i++) {
      box.scrollTop = i < 45 ? box.scrollTop + 37 * (i % 7 + 1) : box.scrollTop - 41 * (i % 7 + 1);
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      times.push(now - last);
      last = now;
    }
    return times;
  }));
}

export default {
  async "52 580 parameters: the table has all of them, to the last, and draws only what is in sight"(t) {
    const page = await t.page(`/jobs/${wide}?tab=parameters`);
    const table = page.getByRole("table", { name: "Parameters" });
    await table.locator(".vrow code").first().waitFor();
    assert.equal(await table.getAttribute("aria-rowcount"), String(PARAMETERS + 1));
    const drawn = () => table.locator(".vrow").count();
    assert.ok((await drawn()) < 100);
    await scroll(page, "scrolling a table of 52 580 rows", ".vtable");
    await table.focus();
    await page.keyboard.press("End");
    await table.locator(`.vrow[aria-rowindex="${PARAMETERS + 1}"] code`).waitFor();
    assert.ok((await drawn()) < 100);
    await page.getByLabel("Order").selectOption("declared");
    await table.locator(".vrow code").first().waitFor();
    await table.focus();
    await page.keyboard.press("End");
    const lastRow = table.locator(`.vrow[aria-rowindex="${PARAMETERS + 1}"] code`);
    await lastRow.waitFor();
    const end = await t.daemon.get(`/v1/jobs/${wide}/summary?order=declared&limit=1&cursor=${PARAMETERS - 1}`);
    await eventually("the last parameter", async () => (await lastRow.innerText()) === end.parameters[0].name);
    await page.keyboard.press("Enter");
    await page.locator("figure.plot canvas").first().waitFor();
    await page.getByText(end.parameters[0].name).first().waitFor();
  },

  async "52 580 coordinates of the noise meter"(t) {
    const page = await t.page(`/jobs/${wide}?tab=noise`);
    const table = page.getByRole("table", { name: "Noise tolerance per coordinate" });
    await table.locator(".vrow code").first().waitFor();
    assert.equal(await table.getAttribute("aria-rowcount"), String(PARAMETERS + 1));
    await table.focus();
    await page.keyboard.press("End");
    await table.locator(`.vrow[aria-rowindex="${PARAMETERS + 1}"] code`).waitFor();
  },

  async "a million draws: what is fetched is decimated, whole and zoomed"(t) {
    const page = await t.page(null);
    const answers = [];
    page.on("response", async (reply) => {
      if (!reply.url().includes("/trace?") || reply.status() !== 200) return;
      const most = Number(new URL(reply.url()).searchParams.get("max_points"));
      const body = await reply.json().catch(() => null);
      if (body) answers.push({ url: reply.url(), most, points: body.parameters.flatMap((p) => p.chains.map((c) => c.value.length)) });
    });
    await page.goto(`${t.daemon.url}/#/jobs/${long}?tab=traces`);
    const figure = page.locator("figure.plot").first();
    await figure.locator("canvas").waitFor();
    await eventually("traces that are drawn", async () => (await coloursOf(figure)) > 8);
    await scroll(page, "scrolling plots of a million draws", "main");
    await page.evaluate(() => { document.querySelector("main").scrollTop = 0; });
    const over = await figure.locator(".u-over").boundingBox();
    await page.evaluate(() => {
      window.frameTimes = [];
      let last = performance.now();
      const tick = (now) => {
        window.frameTimes?.push(now - last);
        last = now;
        if (window.frameTimes) requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    });
    for (const [from, to] of [[0.3, 0.7], [0.4, 0.6], [0.45, 0.55]]) {
      await page.mouse.move(over.x + from * over.width, over.y + 60);
      await page.mouse.down();
      await page.mouse.move(over.x + to * over.width, over.y + 60, { steps: 10 });
      await Promise.all([page.waitForResponse((r) => /\/trace\?.*from=/.test(r.url())), page.mouse.up()]);
    }
    say("zooming into a million draws", await page.evaluate(() => {
      const times = window.frameTimes;
      window.frameTimes = null;
      return times;
    }));
    const complete = (zoomed) => answers.some((a) => a.points.length === 12 && a.url.includes("from=") === zoomed);
    await eventually("all three parameters of four chains, whole and zoomed", () => complete(false) && complete(true));
    for (const { url, most, points } of answers) assert.ok(most > 0 && most <= 1500 && points.every((n) => n > 0 && n <= most), `${url}: ${points}`);
  },

  async "a million draws: every other view"(t) {
    const page = await t.page(`/jobs/${long}`);
    await page.getByLabel("Verdict").getByText("What it rests on").waitFor();
    for (const name of ["Densities", "Parameters", "Noise"]) {
      await page.getByRole("tab", { name, exact: true }).click();
      await page.locator("figure.plot canvas, .vrow code").first().waitFor();
    }
  },
};
