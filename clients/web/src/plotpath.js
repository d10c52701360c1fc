// Paths of line series. A dense zigzag is slow to rasterise and looks like a filled band; one vertical stroke per
// pixel column, from its smallest to its largest value, gives the same picture for a third of the work.
import { columns, placeOf } from "./plotdata.js";

const DENSE = 0.3; // points per pixel column

const linear = ({ min, max }, start, length) => (value) => start + ((value - min) / (max - min)) * length;

function scaleOf(u, key, start, length) {
  return u.scales[key].distr === 1 ? linear(u.scales[key], start, length) : (value) => u.valToPos(value, key, true);
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

// The path builder that uPlot calls. partOf(k) returns the points of series k.
export const linesOf = (partOf) => (u, k) => {
  const part = partOf(k - 1), stroke = new Path2D();
  const { left, top, width, height } = u.bbox;
  const first = placeOf(part.x, u.scales.x.min), end = placeOf(part.x, u.scales.x.max, true);
  const reach = [Math.max(0, first - 1), Math.min(end, part.x.length - 1)]; // including the neighbours just outside the visible range
  const toX = scaleOf(u, "x", left, width), toY = scaleOf(u, "y", top + height, -height);
  const dense = u.series[k].width <= 1 && !u.series[k].dash && end - first >= DENSE * width;
  if (dense) columns(stroke, part, reach, [left, left + width], toX, toY);
  else polyline(stroke, part, reach, toX, toY);
  return { stroke, fill: null, clip: null, band: null, gaps: null, flags: 0, ...(dense && { _width: 1 / devicePixelRatio }) };
};
