// Lines with about as many points as pixels. Zigzags from pixel to pixel are the dearest thing a canvas can be
// asked for and look like a filled band; upright strokes from the least to the largest value of each column of
// pixels give the same band for a third of the work.
import uPlot from "uplot";
import { columns } from "./plotdata.js";

const DENSE = 0.7; // points per column of pixels

const polyline = uPlot.paths.linear();

function countOf(ys, from, to) {
  let n = 0;
  for (let i = from; i <= to; i++) if (ys[i] !== undefined && ys[i] !== null) n++;
  return n;
}

const straight = ({ min, max }, start, length) => (value) => start + ((value - min) / (max - min)) * length;

function isDense(u, k, from, to) {
  const { width, dash } = u.series[k];
  return width <= 1 && !dash && u.scales.x.distr === 1 && u.scales.y.distr === 1 && countOf(u.data[k], from, to) >= DENSE * u.bbox.width;
}

// What uPlot asks for: the line of series k through the points `from` to `to`.
export function lines(u, k, from, to) {
  if (!isDense(u, k, from, to)) return polyline(u, k, from, to);
  const { left, top, width, height } = u.bbox;
  const stroke = new Path2D();
  columns(stroke, u.data[0], u.data[k], from, to, straight(u.scales.x, left, width), straight(u.scales.y, top + height, -height));
  return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 0, _width: 1 / devicePixelRatio };
}
