// A real daemon with its own state and data folders, and an HTTP client for it.
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const BUILD = resolve(process.env.B || "build/release");
export const LOGS = join(BUILD, "log");

// Timeout of a wait. No test asserts how long something takes.
export const PATIENCE = 1000 * Number(process.env.PATIENCE || 300);

const running = new Set();
process.on("exit", () => running.forEach((daemon) => daemon.remove()));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

// Calls a function repeatedly until its result is truthy; returns the result.
export async function eventually(what, ask) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`timed out waiting for ${what}`);
    await new Promise((go) => setTimeout(go, 30));
  }
}

export class Daemon {
  constructor(name, settings = {}) {
    this.folder = mkdtempSync(join(tmpdir(), "barkerd-browser-"));
    this.state = join(this.folder, "state");
    this.data = join(this.folder, "data");
    this.log = join(LOGS, `browser-${name}.log`);
    this.settings = { listen: "127.0.0.1:0", workers: 2, slice_ms: 50, min_free_mb: 0, writes_per_minute: 1000000, max_iterations: 100000000000, ...settings };
    mkdirSync(this.data);
    writeFileSync(this.log, "");
  }

  async start() {
    const path = join(this.state, "url");
    rmSync(path, { force: true }); // left over after kill -9
    const words = Object.entries(this.settings).flatMap(([key, value]) => [`--${key}`, String(value)]);
    const log = openSync(this.log, "a");
    this.process = spawn(join(BUILD, "barkerd"), ["--state", this.state, "--data", this.data, ...words], { stdio: ["ignore", log, log] });
    closeSync(log);
    this.process.on("error", (error) => { this.problem = error; });
    running.add(this);
    this.ended = new Promise((done) => this.process.on("exit", (code, signal) => done(code ?? signal)));
    await eventually("a daemon that is ready", () => {
      if (this.problem) throw this.problem;
      if (this.process.exitCode !== null) throw new Error(`the daemon ended with ${this.process.exitCode}:\n${this.lastWords()}`);
      return existsSync(path);
    });
    this.url = readFileSync(path, "utf8").trim();
    this.token = readFileSync(join(this.state, "admin.token"), "utf8").trim();
    this.settings.listen = this.url.replace("http://", ""); // the same port when it starts again
  }

  async stop() {
    this.process.kill("SIGTERM");
    const code = await this.ended;
    if (code !== 0) throw new Error(`the daemon ended with ${code}:\n${this.lastWords()}`);
    const found = /Sanitizer|runtime error:|Assertion|stack smashing/.exec(readFileSync(this.log, "utf8"));
    if (found) throw new Error(`${found[0]} in ${this.log}`);
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  remove() {
    running.delete(this);
    if (this.process?.exitCode === null) this.process.kill("SIGKILL");
    if (!process.env.KEEP) rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  lastWords() {
    return readFileSync(this.log, "utf8").split("\n").filter((line) => !line.includes("event=request")).slice(-12).join("\n");
  }

  file(name, text) {
    writeFileSync(join(this.data, name), text);
  }

  // The JSON of the reply (null without a body); throws unless the request succeeds.
  async call(method, path, body, { token = this.token } = {}) {
    const reply = await fetch(this.url + path, {
      method, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    });
    const text = await reply.text();
    if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  get(path) {
    return this.call("GET", path);
  }

  async submit(spec, options) {
    return (await this.call("POST", "/v1/jobs", spec, options)).id;
  }

  // Waits until the job is in one of the states.
  wait(id, ...states) {
    return eventually(`${id} ${states}`, async () => {
      const job = await this.get(`/v1/jobs/${id}`);
      if (states.includes(job.state)) return job;
      if (["succeeded", "failed", "cancelled"].includes(job.state)) throw new Error(`${id} is ${job.state}: ${job.reason}`);
      return null;
    });
  }

  async run(spec) {
    return this.wait(await this.submit(spec), "succeeded");
  }

  // A token of a user with this role.
  async user(name, role) {
    return (await this.call("POST", "/v1/tokens", { user: name, role })).token;
  }
}

// ---- data ----

// Pseudo-random numbers, the same in every run.
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

// A response y with the effects -0.8, 0.5, 0.3 of x1, x2, x3.
export function logisticCsv(rows, seed = 1) {
  const next = random(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const lines = ["y,x1,x2,x3"];
  for (let i = 0; i < rows; i++) {
    const [a, b, c] = [normal(), normal(), normal()];
    const p = 1 / (1 + Math.exp(0.8 * a - 0.5 * b - 0.3 * c));
    lines.push([next() < p ? 1 : 0, ...[a, b, c].map((x) => x.toFixed(3))].join(","));
  }
  return lines.join("\n") + "\n";
}

// Every user and every item occurs at least once.
export function ratingsCsv(users, items, rows, seed = 1) {
  const next = random(seed);
  const lines = ["user,item,rating"];
  for (let i = 0; i < rows; i++) {
    const [user, item] = i < Math.max(users, items) ? [i % users, i % items] : [next() * users, next() * items];
    lines.push(`${1 + Math.floor(user)},${1 + Math.floor(item)},${1 + Math.floor(5 * next())}`);
  }
  return lines.join("\n") + "\n";
}
