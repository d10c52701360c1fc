// The screenshot in README.md: the job that README.md analyses, in two views of its page, one above the other.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { inked, live, SHOTS } from "./browser.mjs";

let job;

export async function prepare(daemon) {
  execFileSync("clients/cli/demo-data", [daemon.data]);
  job = await daemon.run({ ...JSON.parse(readFileSync("clients/cli/demo.json", "utf8")), chains: 4 });
}

// From the top of the page, or from its tabs, to the bottom of an element.
async function cut(page, from, last) {
  const top = from ? (await from.boundingBox()).y : 0;
  const box = await last.boundingBox();
  return page.screenshot({ clip: { x: 0, y: top, width: 1280, height: box.y + box.height + 10 - top } });
}

export default {
  async "the screenshot in README.md can be made again"(t) {
    const viewport = { width: 1280, height: 1000 };
    const table = await t.page(`/jobs/${job.id}?tab=parameters&order=declared`, { viewport });
    await live(table);
    await table.getByRole("cell", { name: "sexmale", exact: true }).waitFor();
    const traces = await t.page(`/jobs/${job.id}?tab=traces&params=age,dose&zoom=20000-40000`, { viewport });
    for (const name of ["age", "dose"]) {
      const figure = traces.locator("figure.plot").filter({ has: traces.locator("figcaption b").getByText(name, { exact: true }) });
      await inked(figure);
      await figure.getByText(/^R-hat/).waitFor();
      await figure.getByRole("button", { name: "Show all" }).waitFor();
    }
    const pieces = [await cut(table, null, table.getByRole("table")), await cut(traces, traces.getByRole("tablist"), traces.locator("figure.plot").nth(1))];
    const both = await t.page(null, { viewport });
    await both.setContent(`<style>body { margin: 0 } img { display: block }</style>${pieces.map((png) => `<img src="data:image/png;base64,${png.toString("base64")}">`).join("")}`);
    const path = join(SHOTS, "front.png");
    await both.screenshot({ path, fullPage: true });
    assert.ok(statSync(path).size < 200_000, `${path} is at most 200 KB`);
  },
};
