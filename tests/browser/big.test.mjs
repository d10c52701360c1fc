// Large jobs: 52 580 parameters, a million draws. The cost of frames is printed (see frames.mjs), the drawings are asserted.
import assert from "node:assert/strict";
import { inked } from "./browser.mjs";
import { eventually, logisticCsv, ratingsCsv } from "./daemon.mjs";
import { countDrawing, countRows, drawnSince, holdings, quiet, scrolled, timed } from "./frames.mjs";

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

const trace = (request) => /\/trace\?/.test(request.url());
const finer = (request) => trace(request) && /[?&]from=/.test(request.url());
const parameterOf = (request) => new URL(request.url()).searchParams.get("params");

// Opens the traces of the long job and waits until they are drawn. Also returns the position of the first plot.
async function traces(t, page) {
  await countDrawing(page);
  await page.goto(`${t.daemon.url}/#/jobs/${long}?tab=traces`);
  for (const name of ["theta[1]", "theta[2]", "theta[3]"]) {
    const plot = page.locator(".trace figure.plot").filter({ has: page.getByText(name, { exact: true }) });
    await plot.getByText(/^R-hat/).waitFor();
    await inked(plot);
  }
  await page.getByText("theta[3]: autocorrelation").waitFor();
  await quiet(page);
  return page.locator(".trace .u-over").first().boundingBox();
}

// Wheel events with Ctrl held, ten before each of eight frames. Returns the longest pause between them in ms and the
// number of requests for finer traces sent meanwhile.
const turns = (page) => page.locator(".trace .u-over").first().evaluate(async (over) => {
  const { left, top, width, height } = over.getBoundingClientRect();
  const at = { clientX: left + 0.4 * width, clientY: top + 0.5 * height, bubbles: true, cancelable: true };
  const real = window.fetch;
  let asked = 0, pause = 0, last = performance.now();
  window.fetch = (...args) => {
    if (/\/trace\?.*[?&]from=/.test(String(args[0]?.url ?? args[0]))) asked++;
    return real(...args);
  };
  for (let i = 0; i < 80; i++) {
    if (i % 10 === 9) await new Promise(requestAnimationFrame);
    over.dispatchEvent(new WheelEvent("wheel", { ...at, ctrlKey: true, deltaY: -10 }));
    pause = Math.max(pause, performance.now() - last);
    last = performance.now();
  }
  window.fetch = real;
  return { asked, pause };
});

export default {
  async "52 580 parameters: the table contains all rows and renders only the visible ones"(t) {
    const page = await t.page(`/jobs/${wide}?tab=parameters`);
    const table = page.getByRole("table", { name: "Parameters" });
    await table.locator(".vrow code").first().waitFor();
    assert.equal(await table.getAttribute("aria-rowcount"), String(PARAMETERS + 1));
    const drawn = () => table.locator(".vrow").count();
    assert.ok((await drawn()) < 100);
    await timed(t, page, "scrolling a table of 52 580 rows", () => scrolled(table, 37, 45));
    await timed(t, page, "flinging it", () => scrolled(table, 400, 30));
    assert.ok((await drawn()) < 100);
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

  async "52 580 parameters: row elements are reused, a few per frame at any scroll speed"(t) {
    const page = await t.page(`/jobs/${wide}?tab=parameters`);
    const table = page.getByRole("table", { name: "Parameters" });
    await table.locator(".vrow code").first().waitFor();
    await scrolled(table, 37, 45); // until every row element is in use
    await countRows(table);
    await scrolled(table, 37, 45);
    await scrolled(table, 400, 30);
    await table.evaluate((box) => { box.scrollTop = 200 * 30; });
    await eventually("every row in sight", () => table.evaluate((box) => {
      const shown = new Set([...box.querySelectorAll(".vrow:not(.hole)")].map((row) => Number(row.getAttribute("aria-rowindex")) - 2));
      return Array.from({ length: Math.floor(box.clientHeight / 30) }, (_, k) => 200 + k).every((i) => shown.has(i));
    }));
    const { made, frames } = await table.evaluate((box) => box.filling);
    assert.equal(made, 0, "row elements added or removed");
    assert.ok(frames.length > 20 && Math.max(...frames) <= 8, `rows filled per frame: ${frames}`);
    const rows = await table.getByRole("rowgroup").evaluate((body) => body.getAttribute("aria-owns").split(" ").map((id) => Number(document.getElementById(id).getAttribute("aria-rowindex"))));
    assert.deepEqual(rows, [...rows].sort((a, b) => a - b), "read out in the order of rows");
    assert.equal(new Set(rows).size, await table.locator(".vrow").count());
  },

  async "52 580 coordinates in the noise view"(t) {
    const page = await t.page(`/jobs/${wide}?tab=noise`);
    const table = page.getByRole("table", { name: "Noise tolerance per coordinate" });
    await table.locator(".vrow code").first().waitFor();
    assert.equal(await table.getAttribute("aria-rowcount"), String(PARAMETERS + 1));
    await table.focus();
    await page.keyboard.press("End");
    await table.locator(`.vrow[aria-rowindex="${PARAMETERS + 1}"] code`).waitFor();
  },

  async "a million draws: replies are decimated, for the whole and the zoomed range"(t) {
    const page = await t.page(null);
    const answers = [];
    page.on("response", async (reply) => {
      if (!trace(reply) || reply.status() !== 200) return;
      const most = Number(new URL(reply.url()).searchParams.get("max_points"));
      const body = await reply.json().catch(() => null);
      if (body) answers.push({ url: reply.url(), most, names: body.parameters.map((p) => p.name), points: body.parameters.flatMap((p) => p.chains.map((c) => c.value.length)) });
    });
    const over = await traces(t, page);
    await timed(t, page, "scrolling plots of a million draws", () => scrolled(page.locator("main"), 37, 45));
    await page.evaluate(() => { document.querySelector("main").scrollTop = 0; });
    await timed(t, page, "zooming into them by dragging", async () => {
      for (const [from, to] of [[0.3, 0.7], [0.4, 0.6], [0.45, 0.55]]) {
        await page.mouse.move(over.x + from * over.width, over.y + 60);
        await page.mouse.down();
        await page.mouse.move(over.x + to * over.width, over.y + 60, { steps: 10 });
        await Promise.all([page.waitForResponse(finer), page.mouse.up()]);
      }
    });
    const complete = (zoomed) => new Set(answers.filter((a) => a.points.length >= 4 && finer({ url: () => a.url }) === zoomed).flatMap((a) => a.names)).size === 3;
    await eventually("all three parameters of four chains, whole and zoomed", () => complete(false) && complete(true));
    for (const { url, most, points } of answers) assert.ok(most > 0 && most <= 1500 && points.every((n) => n > 0 && n <= most), `${url}: ${points}`);
  },

  async "a million draws: zooming draws each visible plot once per frame, with few points, and creates no canvas"(t) {
    const page = await t.page(null);
    const over = await traces(t, page);
    const canvases = await page.locator(".trace canvas").evaluateAll((list) => list.map((canvas, i) => (canvas.mark = i)));
    await drawnSince(page);
    await page.mouse.move(over.x + 0.4 * over.width, over.y + 60);
    await timed(t, page, "zooming in and out with the wheel", async () => {
      await page.keyboard.down("Control");
      for (let i = 0; i < 80; i++) {
        await page.mouse.wheel(0, i < 40 ? -30 : 30);
        if (i % 2) await page.evaluate(() => new Promise(requestAnimationFrame));
      }
      await page.keyboard.up("Control");
    });
    const { made, frames } = await drawnSince(page);
    assert.ok(frames.length > 2, `${frames.length} frames`);
    assert.equal(made, 0, "canvases created");
    assert.deepEqual(await page.locator(".trace canvas").evaluateAll((list) => list.map((canvas) => canvas.mark)), canvases, "the canvases of before");
    for (const { drawn, twice, points } of frames) {
      assert.equal(twice, 0, "drawn twice in a frame");
      assert.ok(drawn <= 3, `${drawn} plots in a frame`);
      assert.ok(points <= drawn * (4 * 2 * over.width + 200), `${points} points on ${drawn} plots ${over.width} wide`);
    }
  },

  async "a million draws: a gesture is drawn per frame, and sends one request per plot when it ends"(t) {
    const page = await t.page(null);
    await traces(t, page);
    const requests = [];
    page.on("request", (request) => finer(request) && requests.push(request));
    await drawnSince(page);
    const { asked, pause } = await turns(page);
    const steady = pause < 120; // a longer pause of the machine counts as the end of the gesture
    if (steady) assert.equal(asked, 0, "requests during the gesture");
    await page.waitForFunction(() => location.hash.includes("zoom="));
    await eventually("finer traces", async () => requests.length >= 3 && (await Promise.all(requests.map((r) => r.response()))).some((r) => r?.ok()));
    await quiet(page);
    assert.equal(new Set(requests.map(parameterOf)).size, 3);
    if (steady) assert.equal(requests.length, 3, requests.map((r) => r.url()).join("\n"));
    const { frames } = await drawnSince(page);
    for (const { twice } of frames) assert.equal(twice, 0, "drawn twice in a frame");
    await page.getByRole("button", { name: "Show all" }).first().click();
    await page.waitForFunction(() => !location.hash.includes("zoom="));
  },

  async "a million draws: plots outside the viewport are not drawn until they become visible"(t) {
    const page = await t.page(null, { viewport: { width: 900, height: 320 } });
    await countDrawing(page);
    await page.goto(`${t.daemon.url}/#/jobs/${long}?tab=traces`);
    const plots = page.locator("figure.plot");
    await page.getByText("theta[3]: autocorrelation").waitFor();
    await inked(plots.first());
    const last = plots.last();
    assert.equal(await last.locator("canvas").count(), 0);
    await last.scrollIntoViewIfNeeded();
    await inked(last);
    await quiet(page);
    await drawnSince(page);
    await page.evaluate(() => { location.hash += "&zoom=20000-30000"; });
    await page.locator(".trace").first().getByRole("button", { name: "Show all" }).waitFor({ state: "attached" });
    await quiet(page);
    assert.equal((await drawnSince(page)).frames.length, 0, "drawings of traces outside the viewport");
    await plots.first().scrollIntoViewIfNeeded();
    await eventually("traces that are in sight again", async () => (await drawnSince(page)).frames.length > 0);
  },

  async "a million draws: 500 zooms leak neither memory nor nodes nor listeners"(t) {
    const page = await t.page(null);
    await traces(t, page);
    const zoom = (times) => page.locator(".trace .u-over").first().evaluate(async (over, n) => {
      const { left, top, width } = over.getBoundingClientRect();
      const event = (type, share) => new MouseEvent(type, { clientX: left + share * width, clientY: top + 40, movementX: 1, bubbles: true, view: window });
      for (let i = 0; i < n; i++) {
        if (i % 5 === 4) over.dispatchEvent(event("dblclick", 0.5));
        else {
          over.dispatchEvent(event("mousedown", 0.2 + 0.01 * (i % 7)));
          over.dispatchEvent(event("mousemove", 0.8));
          document.dispatchEvent(event("mouseup", 0.8));
        }
        if (i % 4 === 0) await new Promise(requestAnimationFrame);
      }
    }, times);
    const settled = () => page.waitForFunction(() => !location.hash.includes("zoom="));
    await zoom(50);
    await settled();
    await drawnSince(page);
    const before = await holdings(page);
    await zoom(500);
    await settled();
    const after = await holdings(page);
    const { made, frames } = await drawnSince(page);
    const show = ({ megabytes, nodes, listeners }) => `${megabytes.toFixed(1)} MB, ${nodes} nodes, ${listeners} listeners`;
    console.log(`memory after 50 zooms: ${show(before)}; after 500 more: ${show(after)}; ${frames.length} frames drawn`);
    assert.equal(made, 0, "canvases created");
    assert.ok(frames.length > 50, `${frames.length} frames`);
    assert.ok(after.megabytes < before.megabytes + 10, "memory");
    assert.ok(after.nodes < before.nodes + 200, "nodes");
    assert.ok(after.listeners < before.listeners + 50, "listeners");
  },

  async "a million draws: zooming by dragging ends at the precision of the labels, and an invalid range in the URL shows all"(t) {
    const page = await t.page(null);
    await traces(t, page);
    await page.locator(".trace .u-over").first().evaluate(async (over) => {
      const { left, top, width } = over.getBoundingClientRect();
      const event = (type, share) => new MouseEvent(type, { clientX: left + share * width, clientY: top + 40, movementX: 1, bubbles: true, view: window });
      for (let i = 0; i < 160; i++) {
        over.dispatchEvent(event("mousedown", 0.4 + 0.01 * (i % 7)));
        over.dispatchEvent(event("mousemove", 0.9));
        document.dispatchEvent(event("mouseup", 0.9));
        await new Promise(i % 2 ? requestAnimationFrame : (then) => setTimeout(then, 6)); // a gesture without a pause
      }
    });
    await quiet(page);
    for (const zoom of ["5000-5000", "9-3", "0-99999999999999999999", "5-x"]) {
      await page.goto(`${t.daemon.url}/#/jobs/${long}?tab=traces&zoom=${zoom}`);
      await page.reload();
      await inked(page.locator(".trace figure.plot").first());
      await quiet(page);
      await page.locator(".trace .u-over").first().hover(); // the middle of the whole range
      const [iteration] = /^[\d\u202f]+/.exec(await page.locator(".trace .readout").first().innerText());
      assert.ok(Math.abs(Number(iteration.replaceAll("\u202f", "")) - 125500) < 2000, `${zoom}: ${iteration}`);
    }
  },

  async "a million draws: the other views"(t) {
    const page = await t.page(`/jobs/${long}`);
    await page.getByLabel("Verdict").getByText("Evidence").waitFor();
    for (const name of ["Densities", "Parameters", "Noise"]) {
      await page.getByRole("tab", { name, exact: true }).click();
      await page.locator("figure.plot canvas, .vrow code").first().waitFor();
    }
  },
};
