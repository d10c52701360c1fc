// Page and view state are in the URL fragment: #/jobs/ID?tab=traces&params=theta[1]
import { createStore, useStore } from "./store.js";

export function parseHash(hash) {
  const text = hash.replace(/^#/, "") || "/";
  const mark = text.indexOf("?");
  const path = (mark < 0 ? text : text.slice(0, mark)) || "/";
  const query = {};
  for (const [name, value] of new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1))) query[name] = value;
  return { path: path.startsWith("/") ? path : "/" + path, query };
}

export function makeHash(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== null && value !== "") search.set(name, value);
  // Brackets and commas are legal in a fragment and more readable unescaped.
  const text = search.toString().replace(/%5B/g, "[").replace(/%5D/g, "]").replace(/%2C/g, ",");
  return "#" + path + (text ? "?" + text : "");
}

// "/jobs/:id" against "/jobs/06c…" -> {id: "06c…"} or null.
export function match(pattern, path) {
  const want = pattern.split("/");
  const have = path.split("/");
  if (want.length !== have.length) return null;
  const params = {};
  for (let i = 0; i < want.length; i++) {
    if (!want[i].startsWith(":")) {
      if (want[i] !== have[i]) return null;
    } else if (have[i] === "") return null;
    else params[want[i].slice(1)] = safeDecode(have[i]);
  }
  return params;
}

function safeDecode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = createStore(parseHash(globalThis.location?.hash ?? ""));
globalThis.addEventListener?.("hashchange", () => route.set(parseHash(location.hash)));

export function navigate(path, query, { replace = false } = {}) {
  const hash = makeHash(path, query);
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  route.set(parseHash(hash));
}

// View state kept in the URL:
//     const [tab, setTab] = useQuery("tab", "overview");
// The default is left out. Typing replaces the history entry, a click adds one.
export function useQuery(name, fallback = "") {
  const value = useStore(route, (r) => r.query[name] ?? fallback);
  return [value, (next, options) => setQuery({ [name]: next === fallback ? undefined : next }, options)];
}

export function setQuery(patch, options = { replace: true }) {
  const { path, query } = route.get();
  navigate(path, { ...query, ...patch }, options);
}
