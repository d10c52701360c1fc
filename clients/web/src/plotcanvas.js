// One plot on its canvas. It is made when it first comes near to being seen, and after that only its data, its
// size and the part that is looked at change, all of them in one drawing of a frame.
import uPlot from "uplot";
import { painterOf } from "./paint.js";
import { aligned, endsOf, extentOf, ordered, sameSeries, sampled } from "./plotdata.js";
import { colours, isLine, makeOptions } from "./plotdraw.js";
import { drawn, panned, possible, wheeled, zoomed } from "./zoom.js";

const MANY = 3000; // points of all series together

const isLong = (parts) => parts.length > 1 && parts.reduce((sum, part) => sum + part.x.length, 0) > MANY;

export class PlotCanvas {
  u = null; // once it has been seen
  #series = null; // what is drawn now, by x, and all over the same x, as uPlot wants it
  #parts = null;
  #data = null;
  #width = 0;
  #undo = [];

  // options: a reference to the plot's properties; readout: one to where the values under the pointer are written.
  constructor(element, { options, view, height, readout }) {
    Object.assign(this, { element, options, view, height, readout });
    this.painter = painterOf(element, () => this.#draw());
    const observer = new ResizeObserver(([entry]) => this.#resized(Math.floor(entry.contentRect.width)));
    observer.observe(element);
    this.#undo.push(view.add(this.painter), () => this.painter.stop(), () => observer.disconnect());
    this.painter.ask();
  }

  // Something in the options is new.
  changed() {
    this.painter.ask();
  }

  // In the place of another one: at once, or the page would flicker.
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

  get #sight() {
    const range = this.#range;
    return range ? drawn(range) : this.#extent ?? [-Infinity, Infinity];
  }

  #resized(width) {
    if (width <= 0 || width === this.#width) return;
    this.#width = width;
    if (this.u) this.painter.ask();
  }

  // Taking in new data is all that a frame can bear, and so is making one, which uPlot draws by itself.
  #draw() {
    const taken = this.#take();
    if (!this.u) {
      this.#make();
      this.#update();
    } else if (taken) this.painter.ask();
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
    const [min, max] = this.#sight;
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
      sight: () => this.#sight, parts: () => this.#parts, choose: (range) => this.view.choose(range), watched: () => this.painter.near,
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

  // + and - zoom around the middle, arrows move what is zoomed, 0 shows all again.
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
