// A job with a formula, from the form to its page.
import assert from "node:assert/strict";
import { join } from "node:path";
import { live, SHOTS } from "./browser.mjs";

export function prepare(daemon) {
  const rows = Array.from({ length: 200 }, (_, i) => `"${i + 1}",${i === 5 ? "NA" : 20 + ((i * 37) % 60)},"${i % 3 ? "no" : "yes"}","${(i * 7) % 10 < 4 + (i % 3 ? 0 : 3) ? "yes" : "no"}"`);
  daemon.file("patients.csv", `"","age","smoker","sick"\n${rows.join("\n")}\n`);
}

const field = (page, at) => page.locator(`[data-at="${at}"]`);

export default {
  async "a formula with a file out of R: mistakes in their place, then a table with names"(t) {
    t.allow(/status of 422 /);
    const page = await t.page("/new");
    await field(page, "/model").selectOption("logistic");
    await field(page, "/data/path").selectOption("patients.csv");
    await page.getByText(/is not a column name/).first().waitFor();
    await field(page, "/formula").fill("sick ~ agee + smoker");
    await page.getByText(/did you mean age/).first().waitFor();
    await page.getByText(/are read with the formula/).waitFor();
    assert.equal(await field(page, "/data/response").count(), 0, "a formula replaces the response");
    await field(page, "/formula").fill("sick ~ age + smoker");
    await page.locator(".lamp", { hasText: /^valid/ }).waitFor();
    await page.screenshot({ path: join(SHOTS, "formula-form.png"), fullPage: true });
    await page.getByRole("button", { name: "Submit" }).click();
    await page.waitForURL(/#\/jobs\/[^?]+$/);
    const id = page.url().split("/").at(-1);
    const job = await t.daemon.wait(id, "succeeded");
    assert.equal(job.request.formula, "sick ~ age + smoker");
    await page.goto(`${t.daemon.url}/#/jobs/${id}?tab=parameters&order=declared`);
    await live(page);
    for (const name of ["Intercept", "age", "smokeryes"]) await page.getByRole("cell", { name, exact: true }).waitFor();
    await page.screenshot({ path: join(SHOTS, "formula-job.png"), fullPage: true });
  },
};
