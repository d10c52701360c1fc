// The visible x range of a plot, or of a group of plots.
//
// A gesture changes the range continuously; the plots follow with the next frames. The owner of the range (the URL,
// a request for finer data) is notified once, at the end of the gesture when the plots are drawn.
import { useLayoutEffect, useMemo } from "preact/hooks";
import { painting } from "./paint.js";
import { minWidth } from "./plotdata.js";
import { createStore, useStore } from "./store.js";

const REST_MS = 180; // pause that ends a gesture
const FRAME_MS = 16; // after a single action: as soon as the plots are drawn
const FINEST = 1e-5; // smallest zoom, as a fraction of the whole range

export class View {
  range = null; // [from, to], or null for the whole range
  keep = null; // (range) => …: stores the range outside; null: in `kept`
  kept = createStore({ range: null });
  #painters = new Set();
  #timer = 0;

  // During a gesture.
  move(range) {
    this.#change(range, REST_MS);
  }

  // A single action.
  choose(range) {
    this.#change(range, FRAME_MS);
  }

  // From the owner; ignored during a gesture.
  put(range) {
    if (!this.#timer) this.#show(range);
  }

  // Returns a function that removes the painter. Without painters a pending notification is dropped.
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
    for (const painter of this.#painters) painter.request();
  }
}

const views = new Map(); // group -> View

function viewOf(group) {
  if (!group) return new View();
  if (!views.has(group)) views.set(group, new View());
  return views.get(group);
}

// [view, stored range]
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

// ---- arithmetic: `at` and `share` are fractions of the width, extents and ranges are [from, to] ----

const scaled = (log) => (log ? [Math.log, Math.exp] : [(x) => x, (x) => x]);

// A range of this width, moved inside the extent; null if it covers the whole extent.
function within(from, width, [min, max], back) {
  if (width >= max - min) return null;
  const start = Math.min(Math.max(from, min), max - width);
  return [back(start), back(start + width)];
}

// The range scaled by `factor` around the position `at`.
export function zoomed(range, at, factor, extent, log = false) {
  const [forward, back] = scaled(log);
  const [min, max] = extent.map(forward), [from, to] = (range ?? extent).map(forward);
  const width = Math.max(factor * (to - from), FINEST * (max - min), minWidth(min, max));
  return within(from + at * (to - from - width), width, [min, max], back);
}

// The range if the axis can show it, else null: the axis may have become logarithmic.
export const possible = (range, log = false) => (range?.every(Number.isFinite) && range[0] <= range[1] && (!log || range[0] > 0) ? range : null);

// The range as drawn: widened to the smallest width at which labels differ.
export function drawn([from, to]) {
  const room = Math.max(0, minWidth(from, to) - (to - from)) / 2;
  return [from - room, to + room];
}

// The range moved by a fraction of its width.
export function panned(range, share, extent, log = false) {
  if (!range) return null;
  const [forward, back] = scaled(log);
  const [from, to] = range.map(forward);
  return within(from + share * (to - from), to - from, extent.map(forward), back);
}

const STEP = 0.01, LARGEST = 0.5; // doublings per pixel of the wheel, and per event: one notch is √2

// The new range after a wheel event, or undefined if the event is not for the plot. A plain wheel scrolls the page;
// with Ctrl (also a pinch on a touchpad) it zooms, sideways it pans.
export function wheeled(event, range, at, extent, log) {
  const lines = event.deltaMode === 1 ? 16 : 1;
  const clamp = (x) => Math.max(-LARGEST, Math.min(LARGEST, x));
  if (event.ctrlKey) return zoomed(range, at, 2 ** clamp(STEP * lines * event.deltaY), extent, log);
  const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
  if (!range || Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return undefined;
  return panned(range, clamp((sideways * lines) / 1000), extent, log);
}
