// Runs the tests of every *.test.mjs here, each an object of name: function. Ends with N passed, N failed.
import { readdirSync } from "node:fs";

let passed = 0, failed = 0;
for (const file of readdirSync(new URL(".", import.meta.url)).filter((name) => name.endsWith(".test.mjs")).sort()) {
  const { default: tests } = await import(`./${file}`);
  for (const [name, body] of Object.entries(tests)) {
    try {
      await body();
      passed++;
    } catch (error) {
      failed++;
      console.log(`FAILED ${file}: ${name}\n${error.stack}`);
    }
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
