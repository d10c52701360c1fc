// Every page on a desktop (light and dark) and on a phone: a screenshot for review, and the checks that apply to
// all pages.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DESKTOP, live, noSidewaysScroll, PHONE, SHOTS } from "./browser.mjs";
import { eventually } from "./daemon.mjs";
import { fillLab } from "./lab.mjs";

let lab, running, sweep, mamba, ladder;

const study = (name) => JSON.parse(readFileSync(new URL(`../fixtures/studies/${name}.json`, import.meta.url)));

export async function prepare(daemon) {
  lab = await fillLab(daemon);
  await daemon.user("ann", "user");
  running = await daemon.submit({ name: "a long one, still under way", model: "skew_normal", sampler: "sgbd", warmup: 1000, iterations: 90000000000, thin: 100000, chains: 3, seed: 1, visibility: "lab" });
  const start = async (request) => (await daemon.call("POST", "/v1/studies", request)).id;
  [sweep, mamba, ladder] = [await start(study("sweep")), await start(study("mamba")), await start({ kind: "ladder", job: lab.coarse.id })];
  for (const id of [sweep, mamba, ladder]) await eventually("a study to end", async () => (await daemon.get(`/v1/studies/${id}`)).ended_at);
  await daemon.run({ name: "<script>alert(1)</script> & “quotes”, with a name that is longer than most screens are wide", tags: ["<i>", "long"], model: "skew_normal", sampler: "mala", iterations: 500, chains: 2 });
}

// name: [path, selector that must match before the screenshot is taken]
const PAGES = {
  jobs: ["/jobs", ".vrow"],
  "jobs-none": ["/jobs?q=nothing", ".state"],
  "jobs-trash": ["/jobs?trash=true", ".state"],
  new: ["/new", '.lamp:has-text("incomplete")'],
  "new-clone": [() => `/new?from=${lab.good.id}`, '.lamp:has-text("valid,")'],
  overview: [() => `/jobs/${lab.good.id}`, ".plot canvas"],
  "overview-coarse": [() => `/jobs/${lab.coarse.id}`, ".plot canvas"],
  "overview-running": [() => `/jobs/${running}`, ".chains"],
  traces: [() => `/jobs/${lab.good.id}?tab=traces`, ".plot-note:has-text('R-hat')"],
  densities: [() => `/jobs/${lab.coarse.id}?tab=densities&chains=apart&prior=shown`, ".plot-note:has-text('bias')"],
  parameters: [() => `/jobs/${lab.good.id}?tab=parameters`, ".vrow code"],
  noise: [() => `/jobs/${lab.coarse.id}?tab=noise`, ".vrow code"],
  metrics: [() => `/jobs/${lab.good.id}?tab=metrics`, ".plot canvas"],
  log: [() => `/jobs/${lab.good.id}?tab=log`, ".log li"],
  export: [() => `/jobs/${lab.good.id}?tab=export`, ".code.tall"],
  "compare-none": ["/compare", ".state"],
  "compare-numbers": [() => `/compare?jobs=${all()}&reference=exact`, "table"],
  "compare-densities": [() => `/compare?jobs=${all()}&reference=exact&tab=densities`, ".plot canvas"],
  "compare-metrics": [() => `/compare?jobs=${all()}&tab=metrics`, ".plot canvas"],
  "compare-scatter": [() => `/compare?jobs=${all()}&reference=exact&tab=scatter`, ".plot canvas"],
  studies: ["/studies", ".vrow"],
  "study-new": ["/studies/new", '.lamp:has-text("valid,")'],
  "study-sweep": [() => `/studies/${sweep}`, ".marked-best"],
  "study-picture": [() => `/studies/${sweep}?tab=curves`, ".plot canvas"],
  "study-parallel": [() => `/studies/${sweep}?tab=parallel`, "svg.parallel"],
  "study-mamba": [() => `/studies/${mamba}`, "table.arms"],
  "study-ladder": [() => `/studies/${ladder}`, "table"],
  "server-queue": ["/server", "main table"],
  "server-about": ["/server?tab=about", "main dl, main table"],
  "server-tokens": ["/server?tab=tokens", "main table"],
  "server-users": ["/server?tab=users", "main table"],
  "not-found": ["/nowhere", "main"],
};

const all = () => [lab.good.id, lab.coarse.id, lab.exact.id].join(",");

async function visit(t, look, options, check) {
  t.allow(/status of 422 .*validate_only=true/);
  const page = await t.page(null, options);
  for (const [name, [where, there]] of Object.entries(PAGES)) {
    await page.goto(`${t.daemon.url}/#${typeof where === "function" ? where() : where}`);
    await page.locator(there).first().waitFor();
    await eventually(`${name} without a spinner`, async () => (await page.locator("main .spinner").count()) === 0);
    await live(page);
    await plotsDrawn(page);
    await check?.(page, name);
    await page.screenshot({ path: join(SHOTS, `${name}-${look}.png`) });
    const high = await page.locator("main").evaluate((main) => main.scrollHeight - main.clientHeight);
    if (high > 0 && look !== "dark") await whole(page, options.viewport, high, join(SHOTS, `${name}-${look}-whole.png`));
  }
}

// Visible plots are drawn one after the other, over several frames.
const plotsDrawn = (page) => page.waitForFunction(() => [...document.querySelectorAll(".plot-box:not(:has(canvas))")].every((box) => box.getBoundingClientRect().top > innerHeight));

// A screenshot of the whole page, in a viewport that is taller by `more`.
async function whole(page, viewport, more, path) {
  await page.setViewportSize({ width: viewport.width, height: Math.min(4000, viewport.height + more) });
  await plotsDrawn(page);
  await page.screenshot({ path });
  await page.setViewportSize(viewport);
}

// Every control has a name, every id is unique.
const unnamed = (page) => page.evaluate(() => {
  const name = (e) => e.getAttribute("aria-label") || e.innerText?.trim() || e.title || e.placeholder || e.labels?.[0]?.innerText || e.closest("label")?.innerText;
  const bad = [...document.querySelectorAll("button, a[href], input:not([type=file]), select, textarea")].filter((e) => e.checkVisibility() && !name(e)).map((e) => e.outerHTML);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  return [...bad, ...ids.filter((id, i) => ids.indexOf(id) !== i)];
});

export default {
  async "on a desktop, light: every control has a name"(t) {
    await visit(t, "light", { viewport: DESKTOP }, async (page, name) => assert.deepEqual(await unnamed(page), [], name));
  },

  async "on a desktop, dark: the page is dark"(t) {
    await visit(t, "dark", { viewport: DESKTOP, colorScheme: "dark" }, async (page, name) => {
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.ok(background.match(/\d+/g).slice(0, 3).every((c) => Number(c) < 60), `${name}: ${background}`);
    });
  },

  async "on a phone: nothing is wider than the screen"(t) {
    await visit(t, "phone", { viewport: PHONE, hasTouch: true, isMobile: true }, async (page, name) => assert.equal(await noSidewaysScroll(page), true, name));
  },

  async "signing in, and dialogs and menus"(t) {
    const page = await t.page("/jobs", { token: null });
    await page.getByLabel("Token").waitFor();
    await page.screenshot({ path: join(SHOTS, "signin-light.png") });
    const phone = await t.page("/jobs", { token: null, viewport: PHONE });
    await phone.getByLabel("Token").waitFor();
    assert.equal(await noSidewaysScroll(phone), true);
    await phone.screenshot({ path: join(SHOTS, "signin-phone.png") });
    const inside = await t.page(`/jobs/${lab.good.id}`);
    await inside.getByRole("button", { name: "Delete…" }).click();
    await inside.getByRole("dialog").waitFor();
    await inside.screenshot({ path: join(SHOTS, "dialog-delete-light.png") });
    await inside.keyboard.press("Escape");
    await inside.getByRole("button", { name: "Edit…" }).click();
    await inside.getByRole("dialog").waitFor();
    await inside.screenshot({ path: join(SHOTS, "dialog-edit-light.png") });
    await inside.keyboard.press("Escape");
    await inside.goto(`${t.daemon.url}/#/jobs`);
    await inside.getByRole("button", { name: /^Actions on a long one/ }).click();
    await inside.getByRole("menuitem").first().waitFor();
    await inside.screenshot({ path: join(SHOTS, "menu-light.png") });
  },
};
