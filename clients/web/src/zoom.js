// Which part of x a plot looks at, or the plots of a group together.
//
// A gesture moves a view as often as it likes; the plots follow with the next frames. Whoever keeps the range
// (the address, a finer answer of the daemon) hears of it once, when the hand rests and the plots are drawn.
import { useLayoutEffect, useMemo } from "preact/hooks";
import { painting } from "./paint.js";
import { hairWidth } from "./plotdata.js";
import { createStore, useStore } from "./store.js";

const REST_MS = 180; // a hand that may go on
const FRAME_MS = 16; // one that will not, as soon as the plots have followed
const FINEST = 1e-5; // of all there is

export class View {
  range = null; // [from, to], or null for all there is
  keep = null; // (range) => …: where the range is kept; null: here
  kept = createStore({ range: null });
  #painters = new Set();
  #timer = 0;

  // By hand, with more to come.
  move(range) {
    this.#change(range, REST_MS);
  }

  // By hand, and that was it.
  choose(range) {
    this.#change(range, FRAME_MS);
  }

  // By whoever keeps it. A hand that moves is stronger.
  put(range) {
    if (!this.#timer) this.#show(range);
  }

  // Gives what takes it away. Without plots there is no hand, and nothing left to be told.
  add(painter) {
    this.#painters.add(painter);
    return () => {
      this.#painters.delete(painter);
      if (!this.#painters.size) this.#still();
    };
  }

  #change(range, ms) {
    this.#restIn(ms);
    this.#show(range);
  }

  #restIn(ms) {
    this.#still();
    this.#timer = setTimeout(() => (painting() ? this.#restIn(FRAME_MS) : this.#rest()), ms);
  }

  #still() {
    clearTimeout(this.#timer);
    this.#timer = 0;
  }

  #rest() {
    this.#still();
    if (this.keep) this.keep(this.range);
    else this.kept.set({ range: this.range });
  }

  #show(range) {
    if (this.range?.[0] === range?.[0] && this.range?.[1] === range?.[1]) return;
    this.range = range;
    for (const painter of this.#painters) painter.ask();
  }
}

const views = new Map(); // of groups

function viewOf(group) {
  if (!group) return new View();
  if (!views.has(group)) views.set(group, new View());
  return views.get(group);
}

// [view, the range as it is kept]
export function useView({ group, range, onRange }) {
  const view = useMemo(() => viewOf(group), [group]);
  const own = useStore(view.kept, (s) => s.range);
  useLayoutEffect(() => {
    view.keep = onRange ?? null;
  });
  useLayoutEffect(() => {
    if (onRange) view.put(range ?? null);
  }, [view, range?.[0], range?.[1]]);
  return [view, onRange ? range ?? null : own];
}

// ---- the arithmetic; `at` and `share` are parts of the width, extents and ranges are [from, to] ----

const scaled = (log) => (log ? [Math.log, Math.exp] : [(x) => x, (x) => x]);

// So wide, from there or as near as may be; null where that is all there is.
function within(from, width, [min, max], back) {
  if (width >= max - min) return null;
  const start = Math.min(Math.max(from, min), max - width);
  return [back(start), back(start + width)];
}

// The range `factor` times as wide, with what is at `at` staying there.
export function zoomed(range, at, factor, extent, log = false) {
  const [there, back] = scaled(log);
  const [min, max] = extent.map(there), [from, to] = (range ?? extent).map(there);
  const width = Math.max(factor * (to - from), FINEST * (max - min), hairWidth(min, max));
  return within(from + at * (to - from - width), width, [min, max], back);
}

// A range that an axis can have, or null: it may have become logarithmic since.
export const possible = (range, log = false) => (range?.every(Number.isFinite) && range[0] <= range[1] && (!log || range[0] > 0) ? range : null);

// What is drawn of it. A hand drags as finely as it likes; labels do not follow.
export function drawn([from, to]) {
  const room = Math.max(0, hairWidth(from, to) - (to - from)) / 2;
  return [from - room, to + room];
}

// The range moved by a share of its width.
export function panned(range, share, extent, log = false) {
  if (!range) return null;
  const [there, back] = scaled(log);
  const [from, to] = range.map(there);
  return within(from + share * (to - from), to - from, extent.map(there), back);
}

const STEP = 0.01, LARGEST = 0.5; // doublings per pixel of the wheel, and per event: one notch is √2

// What a turn of the wheel asks for: a range, or undefined where it is none of ours. Plain turns scroll the
// page; with Ctrl held (a pinch on a touchpad arrives as that) they zoom, sideways they move what is zoomed.
export function wheeled(event, range, at, extent, log) {
  const lines = event.deltaMode === 1 ? 16 : 1;
  const clamp = (x) => Math.max(-LARGEST, Math.min(LARGEST, x));
  if (event.ctrlKey) return zoomed(range, at, 2 ** clamp(STEP * lines * event.deltaY), extent, log);
  const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
  if (!range || Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return undefined;
  return panned(range, clamp((sideways * lines) / 1000), extent, log);
}
