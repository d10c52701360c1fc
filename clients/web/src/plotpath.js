// Lines with about as many points as pixels. Zigzags from pixel to pixel are the dearest thing a canvas can be
// asked for and look like a filled band; upright strokes from the least to the largest value of each column of
// pixels give the same band for a third of the work.
import uPlot from "uplot";
import { columns, placeOf } from "./plotdata.js";

const DENSE = 0.7; // points per column of pixels

const polyline = uPlot.paths.linear();

const straight = ({ min, max }, start, length) => (value) => start + ((value - min) / (max - min)) * length;

const plain = ({ scales }, { width, dash }) => width <= 1 && !dash && scales.x.distr === 1 && scales.y.distr === 1;

// What uPlot asks for: the line of a series through the points `from` to `to` of all x. partOf(k) has its own points.
export const linesOf = (partOf) => (u, k, from, to) => {
  const part = partOf(k - 1);
  const { left, top, width, height } = u.bbox;
  const first = placeOf(part.x, u.scales.x.min), end = placeOf(part.x, u.scales.x.max, true);
  if (!plain(u, u.series[k]) || end - first < DENSE * width) return polyline(u, k, from, to);
  const stroke = new Path2D();
  const reach = [Math.max(0, first - 1), Math.min(end, part.x.length - 1)]; // to what is just out of sight
  columns(stroke, part, reach, [left, left + width], straight(u.scales.x, left, width), straight(u.scales.y, top + height, -height));
  return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 0, _width: 1 / devicePixelRatio };
};
