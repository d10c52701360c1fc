// Data of the daemon inside a view, refetched on events.
//
//     const trace = useResource(`/v1/jobs/${id}/trace`, { params }, { job: id, atLeast: 3000 });
//     trace: { data, error, loading, stale, sentAt, reload }
//
// Old data stay during a refetch and after a failure (then stale is true), so that a page that loses its
// connection keeps showing the last known data. A path of null fetches nothing. With the option `all`, data.items are
// those of all pages.
import { useEffect, useRef, useState } from "preact/hooks";
import { address, api } from "./api.js";
import { eventClock, listen, paused } from "./live.js";

const NOTHING = { data: null, error: null, loading: true, stale: false, url: null };

// Whether an event requires a refetch.
function concerns(type, data, { job, on }) {
  if (type === "poll" || type === "reset") return true;
  if (data.deleted) return false; // the job no longer exists
  if (on) return on(type, data);
  return job !== undefined && data.id === job && type !== "job.warning";
}

export function useResource(path, query = {}, options = {}) {
  const url = path && address(path, query);
  const [state, setState] = useState(NOTHING);
  const refs = useRef({});
  refs.current.options = options;
  refs.current.load = options.all
    ? async (how) => ({ items: await api.all(path, { ...query, limit: 500 }, how), next: null })
    : (how) => api.get(url, {}, how);

  useEffect(() => {
    if (!url) {
      setState({ ...NOTHING, loading: false });
      return undefined;
    }
    const fetcher = startFetcher(url, refs, setState);
    refs.current.reload = fetcher.now;
    return fetcher.stop;
  }, [url]);

  return { ...state, reload: () => refs.current.reload?.() };
}

// Calls a function every so many ms while `on`, but not in a hidden tab or while updates are paused. For what changes
// without an event.
export function useEvery(ms, on, call) {
  const latest = useRef(call);
  latest.current = call;
  useEffect(() => {
    if (!on) return undefined;
    const timer = setInterval(() => document.hidden || paused() || latest.current(), ms);
    return () => clearInterval(timer);
  }, [ms, on]);
}

function startFetcher(url, refs, setState) {
  let controller = null;
  let timer = 0;
  let last = 0;
  let again = false; // requested while another request was pending
  let stopped = false;

  setState((old) => ({ ...old, loading: true, stale: old.data !== null, error: null }));

  async function now() {
    clearTimeout(timer);
    timer = 0;
    if (controller) {
      again = true;
      return;
    }
    controller = new AbortController();
    last = Date.now();
    const sentAt = eventClock();
    try {
      const data = await refs.current.load({ signal: controller.signal });
      if (!stopped) setState({ data, error: null, loading: false, stale: false, url, sentAt });
    } catch (error) {
      if (!stopped && error.name !== "AbortError")
        setState((old) => ({ ...old, error, loading: false, stale: old.data !== null, url }));
    }
    controller = null;
    if (again && !stopped) {
      again = false;
      soon();
    }
  }

  // At most once every atLeast ms, and not in a hidden tab.
  function soon() {
    if (timer || stopped) return;
    const wait = Math.max(0, last + (refs.current.options.atLeast ?? 1000) - Date.now());
    timer = setTimeout(() => {
      timer = 0;
      if (paused()) return;
      if (document.hidden) again = true;
      else now();
    }, wait);
  }

  function shown() {
    if (!document.hidden && again && !controller) {
      again = false;
      soon();
    }
  }

  const unlisten = listen((type, data) => {
    if (concerns(type, data, refs.current.options)) soon();
  });
  document.addEventListener("visibilitychange", shown);
  now();
  return {
    now,
    stop() {
      stopped = true;
      clearTimeout(timer);
      controller?.abort();
      unlisten();
      document.removeEventListener("visibilitychange", shown);
    },
  };
}
