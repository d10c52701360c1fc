// Long lists, fetched page by page as a table needs them. The daemon's cursor is a row number.
//
//     const list = usePaged(`/v1/jobs/${id}/summary`, { order }, { items: (d) => d.parameters, total: (d) => d.saved, job: id });
//     <VirtualTable count={list.total} row={list.row} onRange={list.ensure} … />
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { address, api } from "./api.js";
import { listen, paused } from "./live.js";

const SIZE = 500; // larger pages take longer than a frame to parse
const PAUSE_MS = 120; // pages scrolled past quickly are not fetched

export function usePaged(path, query, { items, total, job, atLeast = 10000 }) {
  const base = address(path, query);
  const [state, setState] = useState({ total: null, error: null, first: null, version: 0 });
  const refs = useRef(null);

  if (!refs.current || refs.current.base !== base) refs.current = { base, pages: new Map(), pending: new Set(), range: [0, 1], last: 0, timer: 0 };
  const mine = refs.current;

  const fetchPage = useCallback(async (page) => {
    if (mine.pending.has(page)) return;
    mine.pending.add(page);
    try {
      // With very many draws the daemon returns fewer rows than requested.
      const rows = [];
      for (let cursor = page * SIZE; cursor !== null && rows.length < SIZE;) {
        const doc = await api.get(path, { ...query, limit: SIZE - rows.length, cursor: cursor || undefined });
        if (refs.current !== mine) return;
        rows.push(...items(doc));
        cursor = doc.next ?? null;
        mine.pages.set(page, rows);
        setState((old) => ({ total: total(doc), error: null, first: page === 0 && rows.length === items(doc).length ? doc : old.first, version: old.version + 1 }));
      }
    } catch (error) {
      if (refs.current === mine && error.name !== "AbortError") setState((old) => ({ ...old, error, total: error.status === 409 || error.status === 422 ? null : old.total }));
    }
    mine.pending.delete(page);
  }, [base]);

  const ensure = useCallback((from, to) => {
    mine.range = [from, to];
    clearTimeout(mine.wanted);
    mine.wanted = setTimeout(() => {
      for (let page = Math.floor(from / SIZE); page <= Math.floor((to - 1) / SIZE); page++)
        if (!mine.pages.has(page)) fetchPage(page);
    }, PAUSE_MS);
  }, [fetchPage]);

  // Refetches the visible pages and drops the others. The first page goes first: that request makes the
  // daemon sort the list.
  const refresh = useCallback(async () => {
    mine.last = Date.now();
    await fetchPage(0);
    if (refs.current !== mine) return;
    const [from, to] = mine.range;
    const first = Math.floor(from / SIZE), last = Math.floor(Math.max(from, to - 1) / SIZE);
    for (const page of mine.pages.keys()) if (page > 0 && (page < first || page > last)) mine.pages.delete(page);
    for (let page = Math.max(first, 1); page <= last; page++) fetchPage(page);
  }, [fetchPage]);

  useEffect(() => {
    setState({ total: null, error: null, first: null, version: 0 });
    mine.last = Date.now();
    fetchPage(0);
    const unlisten = listen((type, data) => {
      if (type !== "reset" && type !== "poll" && !(data.id === job && type !== "job.warning" && !data.deleted)) return;
      mine.timer ||= setTimeout(() => {
        mine.timer = 0;
        if (!document.hidden && !paused()) refresh();
      }, Math.max(0, mine.last + atLeast - Date.now()));
    });
    return () => {
      unlisten();
      clearTimeout(mine.timer);
      clearTimeout(mine.wanted);
      mine.timer = 0;
    };
  }, [base]);

  const row = (i) => mine.pages.get(Math.floor(i / SIZE))?.[i % SIZE];
  return { ...state, row, ensure, reload: refresh };
}
