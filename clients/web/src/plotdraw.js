// The look of a plot: colours of the theme, axes, bands, lines and tags. `options` is a ref to the properties of the
// plot, so that changes apply at the next drawing.
import uPlot from "uplot";
import { axisNumbers, number } from "./format.js";
import { labelled, logTicks, roomFor, spread } from "./plotdata.js";
import { linesOf } from "./plotpath.js";
import { drawTrails } from "./plottrail.js";

const PALETTE = 8;

// The colours of the theme as CSS values for a canvas.
export function colours(element) {
  const probe = document.createElement("i");
  element.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["text", "dim", "line", "soft", "panel", "good", "warn", "bad", "accent"];
  const found = Object.fromEntries(names.map((name) => [name, read(name)]));
  found.palette = Array.from({ length: PALETTE }, (_, i) => read(`c${i + 1}`));
  probe.remove();
  return found;
}

export const paletteVar = (i) => `var(--c${(i % PALETTE) + 1})`;

function paint(color, i, theme) {
  if (typeof color === "string") return theme[color] || color;
  return theme.palette[(color ?? i) % PALETTE];
}

const faded = (color, alpha) => color.replace(/^rgb\(([^)]+)\)$/, (_, c) => `rgba(${c.replaceAll(" ", "")}, ${alpha})`);

// The y range of the visible points after ignoreBefore.
function yRange(options, visibleRange, parts) {
  return (u) => {
    const { ignoreBefore = -Infinity, include = [], logY, fromZero } = options.current;
    const [left, right] = visibleRange();
    const between = (from, to) => spread(parts(), (k) => u.series[k + 1].show, from, to);
    let [lo, hi] = between(Math.max(left, ignoreBefore), right);
    if (lo > hi) [lo, hi] = between(left, right); // only warm-up so far
    if (lo > hi) [lo, hi] = [0, 1];
    lo = Math.min(lo, ...include);
    hi = Math.max(hi, ...include);
    if (logY) return [Math.max(lo, 1e-300) / 1.5, Math.max(hi, 1e-300) * 1.5];
    return fromZero && hi > 0 ? [0, 1.15 * hi] : roomFor(lo, hi, 0.05);
  };
}

function drawBands(options, theme) {
  return (u) => {
    const { left, top, width, height } = u.bbox;
    for (const band of options.current.bands || []) {
      const along = band.axis === "y" ? "y" : "x";
      const at = (value) => u.valToPos(value, along, true);
      let a = at(band.from), b = at(band.to);
      if (!Number.isFinite(a) || !Number.isFinite(b)) continue;
      [a, b] = a < b ? [a, b] : [b, a];
      const [start, end] = along === "x" ? [left, left + width] : [top, top + height];
      a = Math.max(a, start);
      b = Math.min(b, end);
      if (b <= a) continue;
      u.ctx.save();
      u.ctx.fillStyle = band.color ? faded(paint(band.color, 0, theme), 0.14) : theme.soft;
      if (along === "x") u.ctx.fillRect(a, top, b - a, height);
      else u.ctx.fillRect(left, a, width, b - a);
      u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      if (band.label && b - a > u.ctx.measureText(band.label).width + 8 * devicePixelRatio) {
        u.ctx.fillStyle = theme.dim;
        u.ctx.textAlign = "left";
        u.ctx.textBaseline = "top";
        u.ctx.fillText(band.label, a + 5 * devicePixelRatio, (along === "x" ? top : a) + 4 * devicePixelRatio);
      }
      u.ctx.restore();
    }
  };
}

function drawLines(options, theme) {
  return (u) => {
    const { left, top, width, height } = u.bbox;
    for (const line of options.current.lines || []) {
      const along = line.axis === "x" ? "x" : "y";
      const at = Math.round(u.valToPos(line.at, along, true)) + 0.5;
      const [start, end] = along === "x" ? [left, left + width] : [top, top + height];
      if (!(at >= start && at <= end)) continue;
      u.ctx.save();
      u.ctx.strokeStyle = u.ctx.fillStyle = paint(line.color ?? "dim", 0, theme);
      u.ctx.lineWidth = devicePixelRatio;
      u.ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
      u.ctx.beginPath();
      if (along === "x") {
        u.ctx.moveTo(at, top);
        u.ctx.lineTo(at, top + height);
      } else {
        u.ctx.moveTo(left, at);
        u.ctx.lineTo(left + width, at);
      }
      u.ctx.stroke();
      if (line.label) {
        u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
        u.ctx.textAlign = along === "x" ? "left" : "right";
        u.ctx.textBaseline = along === "x" ? "top" : "bottom";
        u.ctx.fillText(line.label, along === "x" ? at + 4 * devicePixelRatio : left + width - 3 * devicePixelRatio, along === "x" ? top + 3 * devicePixelRatio : at - 2);
      }
      u.ctx.restore();
    }
  };
}

// Tags beside points, on the side with more space.
function drawTags(options, theme) {
  return (u) => {
    const middle = u.bbox.left + u.bbox.width / 2;
    for (const s of options.current.series.filter((one, i) => one.tag && !options.current.hidden?.has(i))) {
      const x = u.valToPos(s.x[0], "x", true), y = u.valToPos(s.y[0], "y", true);
      const left = x < middle;
      u.ctx.save();
      u.ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      u.ctx.fillStyle = theme.text;
      u.ctx.textAlign = left ? "left" : "right";
      u.ctx.textBaseline = "middle";
      u.ctx.fillText(s.tag, x + (left ? 9 : -9) * devicePixelRatio, y, u.bbox.width / 2);
      u.ctx.restore();
    }
  };
}

const LABEL_PX = { x: 44, y: 18 }; // between labels of a logarithmic axis

function logAxis(along) {
  return { splits: (u, i, min, max) => logTicks(min, max), filter: (u, ticks) => labelled(ticks, (x) => u.valToPos(x, along), LABEL_PX[along]) };
}

function axis(theme, label, size) {
  return {
    stroke: theme.dim, grid: { stroke: theme.soft, width: 1 }, ticks: { stroke: theme.line, width: 1, size: 4 },
    font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", label, labelSize: label ? 16 : 0, labelGap: 0, size, gap: 4,
    values: (u, splits) => axisNumbers(splits),
  };
}

// Whether a series is a plain line.
export const isLine = (s) => !s.trail && !s.steps && !s.dots && !s.fill && !s.points;

function seriesOptions(s, i, { theme, hidden, parts }) {
  const colour = paint(s.color, i, theme);
  return {
    label: s.label, stroke: s.faint ? faded(colour, 0.35) : colour, width: s.width ?? 1, dash: s.dash, fill: s.fill ? faded(colour, 0.12) : undefined,
    spanGaps: true, points: { show: s.trail ? false : s.dots ? true : s.points ?? false, size: s.dots ?? 5, fill: s.dots && colour }, show: !hidden?.has(i), auto: false,
    paths: s.steps ? uPlot.paths.stepped({ align: 1 }) : s.dots || s.trail ? () => null : s.fill ? undefined : linesOf((k) => parts()[k]),
  };
}

const DRAG_PX = 6; // shorter drags are clicks

function selected(u, choose) {
  const { left, width } = u.select;
  if (width < DRAG_PX) return;
  const range = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  choose(range);
}

// visibleRange(): the x range; parts(): {x, y} of each series, sorted; choose(range): the user has zoomed;
// isVisible(): whether the plot is in the viewport.
export function makeOptions({ options, theme, width, height, visibleRange, parts, choose, isVisible, readout }) {
  const { series, xLabel, yLabel, logX, logY, group, hidden } = options.current;
  return {
    width, height, legend: { show: false }, padding: [8, 26, 0, 0],
    cursor: {
      drag: { x: true, y: false, setScale: false }, points: { size: 5 },
      bind: { dblclick: () => () => choose(null) },
      // Only the cursor position is shared; a drag zooms through choose.
      sync: group ? { key: group, setSeries: false, scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave", sub: isVisible } } : undefined,
    },
    scales: { x: { time: false, distr: logX ? 3 : 1, range: (u, min, max) => [min, max] }, y: { range: yRange(options, visibleRange, parts), distr: logY ? 3 : 1 } },
    axes: [{ ...axis(theme, xLabel, 26), ...(logX && logAxis("x")) }, { ...axis(theme, yLabel, 56), ...(logY && logAxis("y")) }],
    series: [{}, ...series.map((s, i) => seriesOptions(s, i, { theme, hidden, parts }))],
    hooks: {
      drawClear: [drawBands(options, theme)],
      draw: [drawLines(options, theme), drawTrails(options, (s, i) => paint(s.color, i, theme)), drawTags(options, theme)],
      setSelect: [(u) => selected(u, choose)],
      setCursor: [(u) => showPoint(u, readout.current)],
    },
  };
}

// Writes the values under the pointer directly into the element, without rendering.
function showPoint(u, element) {
  const { idx } = u.cursor;
  if (!element) return;
  if (idx === null || idx === undefined || u.cursor.left < 0) {
    element.textContent = "";
    return;
  }
  const values = [];
  for (let k = 1; k < u.data.length && values.length < 6; k++) {
    const y = nearestValue(u.data[k], idx);
    if (u.series[k].show && y !== null) values.push(number(y, 4));
  }
  element.textContent = `${axisNumbers([u.data[0][idx]])[0]}: ${values.join("  ")}`;
}

// The closest value of a series: at this x only another series may have a point.
function nearestValue(ys, idx) {
  for (let d = 0; d < 8; d++) {
    const y = ys[idx - d] ?? ys[idx + d];
    if (y !== null && y !== undefined) return y;
  }
  return null;
}
