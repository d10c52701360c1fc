// The bundle made by the build, B/web.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const top = fileURLToPath(new URL("../..", import.meta.url));
const folder = resolve(top, process.env.B || "build/release", "web");
const LIMIT = 150000; // bytes, gzipped, of everything together

const packed = () => readdirSync(folder).filter((name) => name.endsWith(".gz")).map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
const text = (ext) => gunzipSync(packed().find((f) => f.name.endsWith(`${ext}.gz`)).bytes).toString();

function sources(dir = join(top, "clients/web/src")) {
  return readdirSync(dir, { withFileTypes: true }).flatMap((e) => (e.isDirectory() ? sources(join(dir, e.name)) : [join(dir, e.name)]));
}

export default {
  "everything together is under 150 KB gzipped": () => {
    const total = packed().reduce((sum, f) => sum + f.bytes.length, 0);
    assert.ok(total > 10000 && total < LIMIT, `${total} bytes`);
  },
  "the page has no inline script and no inline style": () => {
    const page = text(".html");
    assert.doesNotMatch(page, /<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)/i);
    assert.doesNotMatch(page, /%\w+%/, "every placeholder is filled");
  },
  "the page refers to files whose names contain a hash": () => {
    const page = text(".html");
    const names = packed().map((f) => f.name.replace(/\.gz$/, "")).filter((name) => name !== "index.html");
    for (const name of names) {
      assert.match(name, /-[0-9a-f]{16}\.\w+$/);
      assert.ok(page.includes(`"/assets/${name}"`), name);
    }
  },
  "no requests to other hosts": () => {
    for (const ext of [".js", ".css", ".html"]) {
      const hosts = [...text(ext).matchAll(/https?:\/\/[^\s"'`)]+/g)].map((m) => m[0]).filter((u) => !u.startsWith("http://www.w3.org/"));
      assert.deepEqual(hosts, [], ext);
      assert.doesNotMatch(text(ext), /@import|url\(\s*["']?\/\//);
    }
  },
  "text never becomes HTML or code": () => {
    for (const file of sources())
      assert.doesNotMatch(readFileSync(file, "utf8"), /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|document\.write|\beval\(|new Function|javascript:/, file);
  },
  "the token is sent only in a header": () => {
    for (const file of sources()) assert.doesNotMatch(readFileSync(file, "utf8"), /[?&](token|access_token)=|localStorage.*token/i, file);
  },
};
