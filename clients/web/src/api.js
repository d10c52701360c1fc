// The daemon's HTTP interface. Every failure is an ApiError whose message can be shown to the user.
import { session, signOut } from "./store.js";

// "?chains: a file of this format holds one chain": a list of errors replaces the general detail.
const wordsOf = (errors) => errors?.map(({ pointer, detail }) => (pointer ? `${pointer}: ${detail}` : detail)).join("; ");

export class ApiError extends Error {
  // status 0: no connection.
  constructor(status, problem = {}) {
    super(wordsOf(problem.errors) || problem.detail || problem.title || (status ? `the server answered ${status}` : "the server cannot be reached"));
    this.status = status;
    this.code = problem.code || (status ? "HTTP" : "NETWORK");
    this.title = problem.title || "";
    this.errors = problem.errors || []; // [{pointer, detail, kind}]
  }
}

// /v1/jobs + {state: "active", q: undefined} -> /v1/jobs?state=active. Arrays are joined by commas.
export function address(path, query = {}) {
  const parts = [];
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    parts.push(`${name}=${encodeURIComponent(Array.isArray(value) ? value.join(",") : value)}`);
  }
  return parts.length ? `${path}?${parts.join("&")}` : path;
}

// Replies with an ETag are cached, so that a repeated request is cheap while nothing changed.
const known = new Map();
const KNOWN_LIMIT = 200;

function remember(url, tag, body) {
  known.delete(url);
  known.set(url, { tag, body });
  if (known.size > KNOWN_LIMIT) known.delete(known.keys().next().value);
}

async function problemOf(reply) {
  try {
    return await reply.json();
  } catch {
    return {};
  }
}

// The Response itself, for streams and downloads; throws unless it is 2xx or 304.
export async function send(method, url, { body, headers = {}, signal, token = session.get().token } = {}) {
  const all = { ...headers };
  if (token) all.Authorization = `Bearer ${token}`;
  if (body !== undefined && !(body instanceof Blob)) all["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(url, {
      method, headers: all, signal, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer",
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { detail: "the server cannot be reached" });
  }
  if (reply.ok || reply.status === 304) return reply;
  const failure = new ApiError(reply.status, await problemOf(reply));
  if (reply.status === 401 && token && token === session.get().token) signOut("The token is no longer valid.");
  throw failure;
}

async function get(path, query, { signal } = {}) {
  const url = address(path, query);
  const old = known.get(url);
  const reply = await send("GET", url, { signal, headers: old ? { "If-None-Match": old.tag } : {} });
  if (reply.status === 304 && old) return old.body;
  const body = await json(reply);
  const tag = reply.headers.get("ETag");
  if (tag) remember(url, tag, body);
  return body;
}

// A body that ends early is a network failure too.
async function json(reply) {
  try {
    const text = await reply.text();
    return text ? JSON.parse(text) : null;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { detail: "the reply was incomplete" });
  }
}

const change = (method) => async (path, body, options) => json(await send(method, path, { ...options, body }));

export const api = {
  get,
  post: change("POST"),
  put: change("PUT"),
  patch: change("PATCH"),
  delete: change("DELETE"),
  // All items of a paged list: for await (const items of api.pages("/v1/jobs", {limit: 100}))
  async *pages(path, query = {}, options) {
    let cursor;
    do {
      const page = await get(path, { ...query, cursor }, options);
      yield page.items;
      cursor = page.next;
    } while (cursor);
  },
  async all(path, query, options) {
    const items = [];
    for await (const page of api.pages(path, query, options)) items.push(...page);
    return items;
  },
};

// Clears the cache on sign-out.
session.watch(() => session.get().token || known.clear());

// Downloads a file; it is saved once complete. `progress(bytes)` is called meanwhile.
export async function download(url, name, { signal, progress } = {}) {
  const reply = await send("GET", url, { signal });
  const chunks = [];
  const reader = reply.body.getReader();
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new ApiError(0, { detail: "the download was interrupted" });
    });
    if (done) break;
    chunks.push(value);
    bytes += value.length;
    progress?.(bytes);
  }
  saveBlob(new Blob(chunks, { type: "application/octet-stream" }), name);
}

export function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
