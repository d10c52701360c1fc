// Bundles the dashboard into a folder: node build.mjs FOLDER
//
// FOLDER gets every file gzipped, under a name with a hash of its contents (index.html alone keeps
// its name), and list.h, which server/api/web.c includes: one line per file.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
if (!out) {
  console.error("usage: node build.mjs FOLDER");
  process.exit(2);
}

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", png: "image/png" };

const bundle = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.jsx" },
  bundle: true,
  minify: true,
  write: false,
  outdir: "/",
  format: "esm",
  target: "es2020",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});

const digest = (bytes) => createHash("sha256").update(bytes).digest("hex").slice(0, 16);
const files = [];
const add = (key, name, ext, bytes) => {
  files.push({ key, name, type: TYPES[ext], tag: digest(bytes), packed: gzipSync(bytes, { level: 9 }), size: bytes.length });
  return "/assets/" + name;
};

let html = readFileSync(join(here, "index.html"), "utf8");
for (const ext of ["js", "css"]) {
  const bytes = Buffer.from(bundle.outputFiles.find((f) => f.path.endsWith("." + ext)).contents);
  html = html.replace(`%${ext}%`, add(ext, `app-${digest(bytes)}.${ext}`, ext, bytes));
}
const icon = readFileSync(join(here, "icon.png"));
html = html.replace("%icon%", add("icon", `icon-${digest(icon)}.png`, "png", icon));
add("page", "index.html", "html", Buffer.from(html));

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const f of files) writeFileSync(join(out, f.name + ".gz"), f.packed);
const line = (f) => `    X(${f.key}, "${f.name}", "${f.type}", "${f.tag}", ${f.size}, WEB_FOLDER "/${f.name}.gz")`;
writeFileSync(join(out, "list.h"),
  "/* Made by clients/web/build.mjs: X(key, name, type, hash, size unpacked, file). */\n" +
  "#define WEB_LIST(X) \\\n" + files.map(line).join(" \\\n") + "\n");
const total = files.reduce((sum, f) => sum + f.packed.length, 0);
console.log(`dashboard: ${(total / 1000).toFixed(1)} KB gzipped`);
