// One event stream for the whole page. Views subscribe with useEvents, or refetch data with useResource
// (resource.js); only this file connects.
//
// The stream is read with fetch, so that the token is sent in a header and never in a URL. If streaming
// fails (a buffering proxy, too many tabs), a "poll" event every few seconds makes all views refetch.
import { useEffect, useRef } from "preact/hooks";
import { send } from "./api.js";
import { connection, jobs, session } from "./store.js";

const SILENCE_MS = 40000; // the daemon sends a comment at least every 15 s
const POLL_MS = 5000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

const listeners = new Set();
let controller = null;
let lastId = null;
let failures = 0;
let timer = 0;
let poller = 0;
let silence = 0;

// Calls callback(type, data) with the daemon's events, "poll" while there is no stream, and "reset" when
// events may have been missed. Returns a function that unsubscribes.
export function listen(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

export function useEvents(callback) {
  const latest = useRef(callback);
  latest.current = callback;
  useEffect(() => listen((type, data) => latest.current(type, data)), []);
}

function emit(type, data) {
  for (const callback of [...listeners]) callback(type, data);
}

function become(state, detail = "") {
  const old = connection.get();
  if (old.state !== state || old.detail !== detail)
    connection.set({ state, detail, since: old.state === state ? old.since : Date.now() });
}

// Refetches scheduled before the pause are dropped.
export const paused = () => connection.get().state === "paused";

export const live = {
  start() {
    if (!controller && session.get().token && connection.get().state !== "paused") connect();
  },
  // Nothing changes until resume, which makes all views refetch.
  pause() {
    stop();
    become("paused");
  },
  resume() {
    stop();
    lastId = null;
    failures = 0;
    connect();
  },
  stop() {
    stop();
    lastId = null;
    failures = 0;
    become("none");
  },
};

function stop() {
  controller?.abort();
  controller = null;
  clearTimeout(timer);
  clearTimeout(silence);
  clearInterval(poller);
  poller = 0;
}

function heard(mine) {
  clearTimeout(silence);
  silence = setTimeout(() => mine.abort(), SILENCE_MS);
}

async function connect() {
  const mine = (controller = new AbortController());
  clearTimeout(timer);
  if (connection.get().state !== "polling") become(failures ? "offline" : "connecting", connection.get().detail);
  try {
    heard(mine);
    const reply = await send("GET", "/v1/events", { signal: mine.signal, headers: lastId ? { "Last-Event-ID": lastId } : {} });
    const missed = failures > 0 || lastId === null;
    failures = 0;
    clearInterval(poller);
    poller = 0;
    become("live");
    if (missed) emit("reset", {});
    await readEvents(reply.body.getReader(), () => heard(mine));
    lost(mine, null);
  } catch (error) {
    lost(mine, error);
  }
}

// The stream ended or could not be opened: poll, and reconnect with growing delays.
function lost(mine, error) {
  if (controller !== mine) return; // stopped or replaced deliberately
  controller = null;
  clearTimeout(silence);
  if (!session.get().token) {
    live.stop();
    return;
  }
  const refused = error?.status > 0;
  become(refused ? "polling" : "offline", refused ? error.message : "");
  if (!poller) poller = setInterval(() => document.hidden || emit("poll", {}), POLL_MS);
  timer = setTimeout(connect, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
  failures++;
}

// Server-sent events: blocks of "field: value" lines, separated by empty lines.
export async function readEvents(reader, alive, dispatch = received) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseBlock(block);
      if (event) dispatch(event);
    }
  }
}

export function parseBlock(block) {
  const event = { type: "message", data: "", id: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "event") event.type = value;
    else if (field === "data") event.data += (event.data ? "\n" : "") + value;
    else if (field === "id") event.id = value;
  }
  return event.data || event.id ? event : null;
}

function received(event) {
  if (event.id) lastId = event.id;
  if (!event.data) return;
  const data = JSON.parse(event.data);
  if (data.id) {
    note(data);
    mergeJob(data);
  }
  emit(event.type, data);
}

// A reply may be older than an event that arrived before it, and no later event would correct it. Requests
// therefore note eventClock() when they are sent; fields that events changed since then win over the reply.
const NOTED_LIMIT = 2000;
const noted = new Map(); // id -> {field: [when, value]}
let events = 0;

export const eventClock = () => events;

function note(data) {
  const fields = noted.get(data.id) ?? {};
  events++;
  for (const [name, value] of Object.entries(data)) fields[name] = [events, value];
  noted.delete(data.id);
  noted.set(data.id, fields);
  if (noted.size > NOTED_LIMIT) noted.delete(noted.keys().next().value);
}

function upToDate(job, sentAt) {
  const newer = Object.entries(noted.get(job.id) ?? {}).filter(([, [when]]) => when > sentAt);
  return { ...job, ...Object.fromEntries(newer.map(([name, [, value]]) => [name, value])) };
}

// An event has only the changed fields. Changes are batched, so that a hundred running jobs redraw a table
// a few times per second instead of a hundred times.
const GATHER_MS = 150;
let gathered = {};
let gathering = 0;

export function mergeJob(change) {
  gathered[change.id] = { ...gathered[change.id], ...change };
  gathering ||= setTimeout(flushJobs, GATHER_MS);
}

function flushJobs() {
  const changes = gathered;
  gathered = {};
  gathering = 0;
  jobs.set(({ byId }) => {
    const known = Object.values(changes).filter((change) => byId[change.id]);
    return known.length ? { byId: { ...byId, ...Object.fromEntries(known.map((c) => [c.id, { ...byId[c.id], ...c }])) } } : null;
  });
}

// Stores jobs from a reply; `sentAt` is eventClock() when the request was sent.
export function putJobs(list, sentAt) {
  jobs.set(({ byId }) => ({ byId: { ...byId, ...Object.fromEntries(list.map((job) => [job.id, upToDate(job, sentAt)])) } }));
}

export const putChange = (job, sentAt) => mergeJob(upToDate(job, sentAt));

// A suspended tab may have lost its stream without an error.
if (globalThis.document)
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || connection.get().state === "paused") return;
    if (!controller && session.get().token) live.resume();
  });
