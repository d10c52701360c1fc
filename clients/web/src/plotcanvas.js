// One plot on its canvas. It is created when it first becomes visible; after that, changes of data, size and
// visible range are applied together, once per frame.
import uPlot from "uplot";
import { painterOf } from "./paint.js";
import { aligned, endsOf, extentOf, ordered, sameSeries, sampled } from "./plotdata.js";
import { colours, isLine, makeOptions } from "./plotdraw.js";
import { drawn, panned, possible, wheeled, zoomed } from "./zoom.js";

const MANY = 3000; // points of all series together

const isLong = (parts) => parts.length > 1 && parts.reduce((sum, part) => sum + part.x.length, 0) > MANY;

export class PlotCanvas {
  u = null; // created when first visible
  #series = null; // what is drawn now; #parts: sorted by x; #data: over common x, as uPlot needs it
  #parts = null;
  #data = null;
  #width = 0;
  #undo = [];

  // options: a ref to the plot's properties; readout: a ref to the element for the values under the pointer.
  constructor(element, { options, view, height, readout }) {
    Object.assign(this, { element, options, view, height, readout });
    this.painter = painterOf(element, () => this.#draw());
    const observer = new ResizeObserver(([entry]) => this.#resized(Math.floor(entry.contentRect.width)));
    observer.observe(element);
    this.#undo.push(view.add(this.painter), () => this.painter.stop(), () => observer.disconnect());
    this.painter.request();
  }

  // Something in the options changed.
  changed() {
    this.painter.request();
  }

  // Replaces another canvas: drawn at once to avoid flicker.
  replaces(old) {
    if (old?.u) this.painter.now();
  }

  free() {
    for (const undo of this.#undo) undo();
    this.u?.destroy();
  }

  get #extent() {
    const { xPad = 0, logX } = this.options.current;
    return extentOf(endsOf(this.#parts), xPad, logX);
  }

  get #range() {
    return possible(this.view.range, this.options.current.logX);
  }

  get #visibleRange() {
    const range = this.#range;
    return range ? drawn(range) : this.#extent ?? [-Infinity, Infinity];
  }

  #resized(width) {
    if (width <= 0 || width === this.#width) return;
    this.#width = width;
    if (this.u) this.painter.request();
  }

  // Preparing new data uses up a frame, and so does creating the plot, which uPlot draws itself.
  #draw() {
    const taken = this.#take();
    if (!this.u) {
      this.#make();
      this.#update();
    } else if (taken) this.painter.request();
    else {
      this.u.batch(() => this.#update());
      return false;
    }
    return true;
  }

  #update() {
    const { u } = this;
    if (u.data !== this.#data) u.setData(this.#data, false);
    if (u.width !== this.#width) u.setSize({ width: this.#width, height: this.height });
    const [min, max] = this.#visibleRange;
    if (this.#extent) u.setScale("x", { min, max });
    else u.redraw(false);
  }

  #take() {
    const { series } = this.options.current;
    if (sameSeries(series, this.#series)) return false;
    this.#parts = series.map(ordered);
    this.#data = isLong(this.#parts) && series.every(isLine) ? sampled(this.#parts) : aligned(this.#parts);
    this.#series = series;
    return true;
  }

  #make() {
    this.#width ||= Math.floor(this.element.getBoundingClientRect().width) || 300;
    this.u = new uPlot(makeOptions({
      options: this.options, theme: colours(this.element), width: this.#width, height: this.height, readout: this.readout,
      visibleRange: () => this.#visibleRange, parts: () => this.#parts, choose: (range) => this.view.choose(range), isVisible: () => this.painter.visible,
    }), this.#data, this.element);
    this.u.over.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  #wheel(event) {
    if (!this.#extent) return;
    const at = (event.clientX - this.u.rect.left) / this.u.rect.width;
    const range = wheeled(event, this.#range, at, this.#extent, this.options.current.logX);
    if (range === undefined) return;
    event.preventDefault();
    this.view.move(range);
  }

  // + and - zoom around the middle, arrows pan, 0 resets.
  key(event) {
    if (!this.u || !this.#extent || event.ctrlKey || event.altKey || event.metaKey) return;
    const range = this.#range, log = this.options.current.logX;
    const zoom = (factor) => zoomed(range, 0.5, factor, this.#extent, log);
    const pan = (share) => (range ? panned(range, share, this.#extent, log) : undefined);
    const next = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), 0: () => null }[event.key]?.();
    if (next === undefined) return;
    event.preventDefault();
    this.view.move(next);
  }
}
