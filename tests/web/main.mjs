// Runs the tests of every *.test.mjs in this folder; each file exports an object of name: function. Arguments select the
// tests whose file or name contains one of them. The last line is "N passed, N failed".
import { readdirSync } from "node:fs";

const wanted = process.argv.slice(2);
const chosen = (file, name) => wanted.length === 0 || wanted.some((part) => file.includes(part) || name.includes(part));
let passed = 0, failed = 0;
for (const file of readdirSync(new URL(".", import.meta.url)).filter((name) => name.endsWith(".test.mjs")).sort()) {
  const { default: tests } = await import(`./${file}`);
  for (const [name, body] of Object.entries(tests).filter(([name]) => chosen(file, name))) {
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
