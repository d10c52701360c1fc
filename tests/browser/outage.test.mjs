// The daemon ends while a page is open.
import assert from "node:assert/strict";
import { live } from "./browser.mjs";
import { eventually } from "./daemon.mjs";

// Chromium's messages for a lost connection. 503: the daemon is not ready yet.
const GONE = /ERR_CONNECTION_|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONTENT_LENGTH_MISMATCH|ERR_SOCKET_NOT_CONNECTED|status of 503/;

// Iterations of the first chain, as the page shows them.
const shown = async (page) => Number((await page.getByLabel("Chains").locator("tbody tr").first().locator("td").nth(2).innerText()).split("/")[0].replace(/\D/g, ""));

export default {
  async "daemon killed and restarted: the page shows it, keeps the last known data, and reconnects"(t) {
    t.allow(GONE);
    const id = await t.daemon.submit({ name: "survivor", model: "skew_normal", sampler: "sgbd", warmup: 1000, iterations: 90000000000, thin: 50000, chains: 2, seed: 1 });
    const page = await t.page(`/jobs/${id}`);
    const list = await t.page("/jobs");
    await Promise.all([live(page), live(list)]);
    await eventually("some progress on the page", async () => (await shown(page)) > 100000);
    await page.evaluate(() => { window.notReloaded = true; });
    await list.evaluate(() => { window.notReloaded = true; });

    await t.daemon.kill();
    for (const one of [page, list]) {
      await one.locator('.lamp[data-state="offline"]').waitFor();
      await one.getByText("Disconnected. Showing the last known data").waitFor();
    }
    await page.getByRole("heading", { name: "survivor" }).waitFor();
    await list.getByRole("link", { name: "survivor" }).waitFor();
    const before = await shown(page);
    assert.ok(before > 100000, "the last known data stay");

    await t.daemon.start();
    for (const one of [page, list]) {
      await live(one);
      await one.locator(".strip").waitFor({ state: "detached" });
      assert.equal(await one.evaluate(() => window.notReloaded), true);
    }
    await eventually("progress after the restart", async () => (await shown(page)) > before);
    await page.locator(".job-head .mark", { hasText: "running" }).waitFor();
    await list.getByRole("row").filter({ hasText: "survivor" }).getByText("running").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator(".job-head .mark", { hasText: "cancelled" }).waitFor();
  },

  async "a page opened while the daemon is down shows it, and loads once the daemon is up"(t) {
    t.allow(GONE);
    await t.daemon.run({ name: "there", model: "skew_normal", sampler: "sgbd", iterations: 300, chains: 2 });
    const page = await t.page("/jobs");
    await live(page);
    await t.daemon.kill();
    await page.locator('.lamp[data-state="offline"]').waitFor();
    await page.getByRole("link", { name: "Server" }).click();
    await page.getByText("The server cannot be reached").first().waitFor();
    await t.daemon.start();
    await live(page);
    await page.getByText("The server cannot be reached").first().waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Jobs" }).click();
    await page.getByRole("link", { name: "there" }).waitFor();
  },
};
