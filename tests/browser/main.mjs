// Runs the tests of every *.test.mjs in this folder; each file exports an object of name: function(t). One browser
// for all tests, one context per test, one daemon per file (t.daemon, with the settings that the file exports). The
// last line is "N passed, N failed".
import { mkdirSync, readdirSync } from "node:fs";
import { Browser, SHOTS, Test } from "./browser.mjs";
import { Daemon, LOGS } from "./daemon.mjs";

const wanted = process.argv.slice(2);
const chosen = (file, name) => wanted.length === 0 || wanted.some((part) => file.includes(part) || name.includes(part));
const started = performance.now();
let passed = 0, failed = 0;

async function runTest(file, name, body, browser, daemon) {
  const t = new Test(browser, daemon);
  const began = performance.now();
  try {
    await body(t);
    await t.finish();
    passed++;
    console.log(`ok ${file}: ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`FAILED ${file}: ${name}\n${error.stack}`);
    await t.autopsy(name);
  }
  await t.close();
}

async function runFile(file, browser) {
  const module = await import(`./${file}`);
  const tests = Object.entries(module.default).filter(([name]) => chosen(file, name));
  if (!tests.length) return;
  const daemon = new Daemon(file.replace(".test.mjs", ""), module.settings);
  try {
    await daemon.start();
    await module.prepare?.(daemon);
    for (const [name, body] of tests) await runTest(file, name, body, browser, daemon);
    await daemon.stop();
  } catch (error) {
    failed++;
    console.log(`FAILED ${file}\n${error.stack}\n${daemon.lastWords()}`);
  } finally {
    daemon.remove();
  }
}

mkdirSync(SHOTS, { recursive: true });
mkdirSync(LOGS, { recursive: true });
let browser = null;
try {
  browser = await Browser.launch();
  for (const file of readdirSync(new URL(".", import.meta.url)).filter((name) => name.endsWith(".test.mjs")).sort()) await runFile(file, browser);
} catch (error) {
  failed++;
  console.log(`FAILED the browser\n${error.stack}`);
}
await browser?.close();
console.log(`screenshots: ${SHOTS}; ${((performance.now() - started) / 1000).toFixed(0)} s`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
