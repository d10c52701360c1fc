// Sign-in, sign-out, and what the browser stores.
import assert from "node:assert/strict";
import { live } from "./browser.mjs";

let job;

export async function prepare(daemon) {
  job = await daemon.run({ name: "first", model: "skew_normal", sampler: "sgbd", iterations: 500, chains: 2, seed: 1 });
}

const everythingKept = (page) => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie]));

async function signIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

export default {
  async "a token signs in for this tab only, and is never in the URL"(t) {
    const page = await t.page("/jobs", { token: null });
    await signIn(page, t.daemon.token);
    await page.getByRole("link", { name: "first" }).waitFor();
    await live(page);
    assert.equal(await page.evaluate(() => sessionStorage.getItem("barkerd.token")), t.daemon.token);
    assert.equal(await page.evaluate(() => JSON.stringify(localStorage).includes("bk_") || document.cookie !== ""), false);
    assert.ok(!page.url().includes("bk_"));
    await page.reload();
    await page.getByRole("link", { name: "first" }).waitFor();
    const other = await page.context().newPage();
    t.watch(other);
    await other.goto(t.daemon.url);
    await other.getByLabel("Token").waitFor();
  },

  async "an invalid token is refused with a message and is not stored"(t) {
    t.allow(/status of 401 .*\/v1\/me/);
    const page = await t.page("/jobs", { token: null });
    const wrong = "bk_" + "x".repeat(40);
    await signIn(page, wrong);
    await page.getByText("The server does not accept this token.").waitFor();
    assert.ok(!(await everythingKept(page)).includes(wrong));
    await page.getByLabel("Token").fill("");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Enter a token").waitFor();
    await signIn(page, t.daemon.token);
    await page.getByRole("link", { name: "first" }).waitFor();
  },

  async "signing out clears everything stored"(t) {
    const page = await t.page("/jobs");
    await page.getByRole("button", { name: /^Signed in as/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    assert.ok(!(await everythingKept(page)).includes("bk_"));
    await page.reload();
    await page.getByLabel("Token").waitFor();
  },

  async "revoking the token signs out open pages, with a message"(t) {
    t.allow(/status of 401/);
    const made = await t.daemon.call("POST", "/v1/tokens", { user: "ann", role: "user" });
    const page = await t.page("/jobs", { token: made.token });
    await live(page);
    await t.daemon.call("DELETE", `/v1/tokens/${made.id}`);
    await page.getByText("The token is no longer valid.").waitFor();
    assert.ok(!(await everythingKept(page)).includes("bk_"));
  },

  async "a link with a ticket signs in once, and the ticket is removed from the URL"(t) {
    t.allow(/status of 40[0-9] .*\/v1\/tickets\/redeem/);
    const { ticket } = await t.daemon.call("POST", "/v1/tickets");
    const where = `/jobs/${job.id}?tab=log&ticket=${encodeURIComponent(ticket)}`;
    const page = await t.page(where, { token: null });
    await page.getByRole("heading", { name: "first" }).waitFor();
    await page.waitForURL((url) => url.hash === `#/jobs/${job.id}?tab=log`);
    assert.ok(!(await everythingKept(page)).includes(ticket));
    await page.goBack();
    assert.ok(!page.url().includes(ticket), "the ticket is not in the history either");
    const late = await t.page(where, { token: null });
    await late.getByText("The link has already been used").waitFor();
    await late.waitForURL((url) => !url.hash.includes("ticket"));
    assert.equal(await late.evaluate(() => sessionStorage.getItem("barkerd.token")), null);
  },

  async "by keyboard alone: sign in, open a job, switch tabs"(t) {
    const page = await t.page("/jobs", { token: null });
    await page.getByLabel("Token").waitFor();
    await page.waitForFunction(() => document.activeElement.name === "token"); // the token field has the focus
    await page.keyboard.type(t.daemon.token);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "first" }).waitFor();
    const press = async (key, there) => {
      for (let i = 0; i < 40; i++) {
        await page.keyboard.press(key);
        if (await page.evaluate(there)) return;
      }
      assert.fail(`${key} does not reach the element`);
    };
    await press("Tab", () => document.activeElement.getAttribute("role") === "table");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "first" }).waitFor();
    await press("Tab", () => document.activeElement.getAttribute("role") === "tab");
    await page.keyboard.press("ArrowRight");
    await page.locator(".plot canvas").first().waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Traces");
    await page.keyboard.press("End");
    await page.getByText("Request with all defaults").waitFor();
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "one sees where one is");
  },
};
