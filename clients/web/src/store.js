// A value that parts of the page watch. set() merges; whoever selected something that did not change
// is not drawn again.
import { useEffect, useReducer, useRef } from "preact/hooks";

export function createStore(initial) {
  let state = initial;
  const watchers = new Set();
  return {
    get: () => state,
    set(change) {
      const patch = typeof change === "function" ? change(state) : change;
      if (patch === state || !patch) return;
      state = { ...state, ...patch };
      for (const watch of [...watchers]) watch();
    },
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

const same = (a, b) =>
  Object.is(a, b) || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((x, i) => Object.is(x, b[i])));

// const name = useStore(session, (s) => s.me?.user)
export function useStore(store, select = (state) => state) {
  const [, redraw] = useReducer((n) => n + 1, 0);
  const seen = useRef();
  const chosen = useRef(select);
  chosen.current = select;
  seen.current = select(store.get());
  useEffect(() => {
    const look = () => {
      const now = chosen.current(store.get());
      if (!same(now, seen.current)) redraw();
    };
    look(); // what changed between drawing and now
    return store.watch(look);
  }, [store]);
  return seen.current;
}

// Who is signed in. The token lives in the tab's sessionStorage and goes with the tab.
export const session = createStore({
  token: read(sessionStorageOrNone(), "barkerd.token"),
  me: null, // {user, role, token_id}
  info: null, // GET /v1/info
  notice: null, // why one was signed out
});

// What the reader of this browser prefers; no secrets.
const prefs0 = parse(read(localStorageOrNone(), "barkerd.prefs")) || {};
export const prefs = createStore({ theme: "auto", ...prefs0 });
prefs.watch(() => write(localStorageOrNone(), "barkerd.prefs", JSON.stringify(prefs.get())));

// The event stream, as live.js keeps it: connecting, live, polling, offline, paused, none.
export const connection = createStore({ state: "none", since: Date.now(), detail: "" });

// Jobs by id, as far as they have been seen; kept up to date by live.js.
export const jobs = createStore({ byId: {} });

// Ids ticked for a comparison, in the order of ticking. They outlive a change of page, not of tab.
export const ticked = createStore({ ids: parse(read(sessionStorageOrNone(), "barkerd.ticked")) || [] });
ticked.watch(() => write(sessionStorageOrNone(), "barkerd.ticked", JSON.stringify(ticked.get().ids)));

export function tick(id, on) {
  ticked.set(({ ids }) => ({ ids: on ? [...ids.filter((i) => i !== id), id] : ids.filter((i) => i !== id) }));
}

export function signIn(token) {
  write(sessionStorageOrNone(), "barkerd.token", token);
  session.set({ token, me: null, info: null, notice: null });
}

export function signOut(notice = null) {
  sessionStorageOrNone()?.removeItem("barkerd.token");
  sessionStorageOrNone()?.removeItem("barkerd.ticked");
  session.set({ token: null, me: null, info: null, notice });
  jobs.set({ byId: {} });
  ticked.set({ ids: [] });
}

// Storage may be forbidden by the browser, or absent in tests.
function sessionStorageOrNone() {
  try {
    return globalThis.sessionStorage ?? null;
  } catch {
    return null;
  }
}

function localStorageOrNone() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

function read(storage, key) {
  return storage ? storage.getItem(key) : null;
}

function write(storage, key, text) {
  try {
    storage?.setItem(key, text);
  } catch {
    // full or forbidden: it lasts as long as the page
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
