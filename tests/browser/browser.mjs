// Chromium, and the checks that apply to every page of every test: no errors, no violations of the
// Content-Security-Policy, no requests to other hosts than the daemon.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { BUILD, eventually, PATIENCE } from "./daemon.mjs";

const CHROMIUM = process.env.CHROMIUM || "/usr/bin/chromium";
export const SHOTS = join(BUILD, "screenshots");
export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

export class Browser {
  static launch() {
    if (!existsSync(CHROMIUM)) throw new Error(`${CHROMIUM} is missing: make deps, or BARKER_NO_BROWSER=1 to skip these tests`);
    return chromium.launch({ executablePath: CHROMIUM, timeout: PATIENCE, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
  }
}

const reportViolations = () =>
  document.addEventListener("securitypolicyviolation", (e) => console.error(`Content-Security-Policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));

export class Test {
  constructor(browser, daemon) {
    this.browser = browser;
    this.daemon = daemon;
    this.contexts = [];
    this.pages = [];
    this.complaints = [];
    this.allowed = [];
  }

  // Allows errors that this test causes deliberately. The browser itself reports replies such as 401 as errors.
  allow(...patterns) {
    this.allowed.push(...patterns);
  }

  // A page in a new browser context. With `token` it is signed in.
  async page(where = null, { token = this.daemon.token, viewport = DESKTOP, ...options } = {}) {
    const context = await this.browser.newContext({ viewport, colorScheme: "light", reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(PATIENCE);
    this.contexts.push(context);
    await context.addInitScript(reportViolations);
    if (token) await context.addInitScript((t) => sessionStorage.getItem("signed in") ?? (sessionStorage.setItem("signed in", "once"), sessionStorage.setItem("barkerd.token", t)), token);
    const page = await context.newPage();
    this.watch(page);
    if (where !== null) await page.goto(`${this.daemon.url}/#${where}`);
    return page;
  }

  watch(page) {
    this.pages.push(page);
    page.on("pageerror", (error) => this.complaints.push(`page error: ${error.stack}`));
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && this.complaints.push(`console: ${message.text()} (${message.location().url})`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (!["data:", "blob:"].includes(url.protocol) && url.origin !== this.daemon.url) this.complaints.push(`request to ${request.url()}`);
    });
    page.on("dialog", (dialog) => {
      this.complaints.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
  }

  async finish() {
    // Console messages arrive after the actions that cause them.
    for (const page of this.pages) if (!page.isClosed()) await page.evaluate(() => new Promise(requestAnimationFrame));
    const left = this.complaints.filter((text) => !this.allowed.some((pattern) => pattern.test(text)));
    assert.deepEqual(left, [], "complaints");
  }

  async autopsy(name) {
    for (const [i, page] of this.pages.entries()) {
      if (page.isClosed()) continue;
      const path = join(SHOTS, `failed-${name.replace(/\W+/g, "-").slice(0, 60)}-${i}.png`);
      await page.screenshot({ path }).then(() => console.log(`at ${page.url()}: ${path}`), () => {});
    }
    if (this.complaints.length) console.log(this.complaints.join("\n"));
  }

  async close() {
    for (const context of this.contexts) await context.close().catch(() => {});
  }
}

// ---- contents of a page ----

export const live = (page) => page.locator('.lamp[data-state="live"]').waitFor();

export const tab = (page, name) => page.getByRole("tab", { name, exact: true }).click();

// Saves the plot in a format; returns the bytes of the file.
export async function save(page, plot, format) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    (async () => {
      await plot.getByRole("button", { name: /^Save the plot/ }).click();
      await page.getByRole("menuitem", { name: `Save as ${format}` }).click();
    })(),
  ]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  return { name: download.suggestedFilename(), bytes: Buffer.concat(chunks) };
}

// The number of colours on the canvas of a plot; a blank canvas has one. Reads a copy, because chromium warns about
// canvases that are read repeatedly.
export const coloursOf = (plot) => plot.locator("canvas").evaluate((canvas) => {
  const { width, height } = canvas;
  if (!width || !height) return 0;
  const copy = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return new Set(new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer)).size;
});

// Waits until a plot is drawn.
export async function inked(plot) {
  await plot.locator("canvas").waitFor();
  await eventually("something drawn", async () => (await coloursOf(plot)) > 8);
}

// Waits until a field has a value: the form updates it shortly after an input, not at once.
export async function shows(field, value) {
  let seen;
  await eventually(`“${value}” in a field`, async () => (seen = await field.inputValue()) === value).catch((error) => assert.equal(seen, value, error.message));
}

// Asserts that the displayed number is a rounding of the daemon's value.
export function assertRounding(text, value, what) {
  if (value === null || value === undefined) {
    assert.equal(text.trim(), "–", what);
    return;
  }
  const plain = text.trim().replace(/[\s\u202f]/g, "").replace(/−/g, "-");
  const [, whole, power = "0"] = /^(-?\d+(?:\.\d+)?)(?:e(-?\d+))?$/.exec(plain) ?? assert.fail(`${what}: “${text}” is not a number`);
  const decimals = whole.includes(".") ? whole.split(".")[1].length : 0;
  const unit = 10 ** (Number(power) - decimals);
  assert.ok(Math.abs(Number(plain) - value) <= 0.5001 * unit, `${what}: ${text} is not a rounding of ${value}`);
}

// The rows of a table (plain or virtual), as objects with the column headings as keys.
export async function rowsOf(table) {
  const heads = await table.getByRole("columnheader").allInnerTexts();
  const rows = await table.getByRole("row").filter({ has: table.page().getByRole("cell") }).all();
  return Promise.all(rows.map(async (row) => Object.fromEntries((await row.getByRole("cell").allInnerTexts()).map((text, i) => [heads[i].trim(), text.trim()]))));
}

export const noSidewaysScroll = (page) => page.evaluate(() => {
  const main = document.querySelector("main");
  const root = document.documentElement;
  return root.scrollWidth <= root.clientWidth && (!main || main.scrollWidth <= main.clientWidth);
});
