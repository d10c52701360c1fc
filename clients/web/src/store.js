// An observable value. set() merges; a component whose selected part did not change is not rendered again.
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
    look(); // changes between rendering and this effect
    return store.watch(look);
  }, [store]);
  return seen.current;
}

// The signed-in user. The token is kept in sessionStorage, for this tab only.
export const session = createStore({
  token: read(sessionStorageOrNone(), "barkerd.token"),
  me: null, // {user, role, token_id}
  info: null, // GET /v1/info
  notice: null, // why the user was signed out
});

// Preferences of this browser; no secrets.
const prefs0 = parse(read(localStorageOrNone(), "barkerd.prefs")) || {};
export const prefs = createStore({ theme: "auto", ...prefs0 });
prefs.watch(() => write(localStorageOrNone(), "barkerd.prefs", JSON.stringify(prefs.get())));

// State of the event stream, set by live.js: connecting, live, polling, offline, paused, none.
export const connection = createStore({ state: "none", since: Date.now(), detail: "" });

// The jobs fetched so far, by id; kept up to date by live.js.
export const jobs = createStore({ byId: {} });

// Ids of the jobs selected for comparison, in order. They survive a change of page, for this tab only.
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

// Storage may be blocked by the browser, or absent in tests.
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
    // full or blocked: the value lasts until the page is reloaded
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
