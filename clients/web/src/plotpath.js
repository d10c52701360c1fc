// Lines, each through its own points. Zigzags from pixel to pixel are the dearest thing a canvas can be asked for and
// look like a filled band; upright strokes from the least to the largest value of each column of pixels give the
// same band for a third of the work.
import { columns, placeOf } from "./plotdata.js";

const DENSE = 0.3; // points per column of pixels

const straight = ({ min, max }, start, length) => (value) => start + ((value - min) / (max - min)) * length;

function scaleOf(u, key, start, length) {
  return u.scales[key].distr === 1 ? straight(u.scales[key], start, length) : (value) => u.valToPos(value, key, true);
}

function polyline(path, { x, y }, [from, to], toX, toY) {
  let begun = false;
  for (let i = from; i <= to; i++) {
    if (y[i] === undefined || y[i] === null) continue;
    if (begun) path.lineTo(toX(x[i]), toY(y[i]));
    else path.moveTo(toX(x[i]), toY(y[i]));
    begun = true;
  }
}

// What uPlot asks for: the line of a series. partOf(k) has its points.
export const linesOf = (partOf) => (u, k) => {
  const part = partOf(k - 1), stroke = new Path2D();
  const { left, top, width, height } = u.bbox;
  const first = placeOf(part.x, u.scales.x.min), end = placeOf(part.x, u.scales.x.max, true);
  const reach = [Math.max(0, first - 1), Math.min(end, part.x.length - 1)]; // to what is just out of sight
  const toX = scaleOf(u, "x", left, width), toY = scaleOf(u, "y", top + height, -height);
  const dense = u.series[k].width <= 1 && !u.series[k].dash && end - first >= DENSE * width;
  if (dense) columns(stroke, part, reach, [left, left + width], toX, toY);
  else polyline(stroke, part, reach, toX, toY);
  return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 0, ...(dense && { _width: 1 / devicePixelRatio }) };
};
