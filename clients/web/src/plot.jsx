// Plots: lines with shaded stretches and limits, on uPlot.
//
//     <Plot title="theta[1]" name="job-theta1" note="R-hat 1.003" height={180}
//       series={[{ label: "chain 1", x: [...], y: [...] }]} xLabel="iteration"
//       bands={[{ axis: "x", from: 0, to: 1000, label: "warm-up" }]}
//       lines={[{ axis: "y", at: 1.01, label: "1.01" }]} ignoreBefore={1000} />
//
// series: {label, x, y, color, width, dash, fill, faint, dots, tag}; each has its own x. color is a number
//     (of the palette: chains, jobs) or a CSS colour; without one it is the series' place. dots: points of
//     that many pixels and no line; tag: written beside the first point.
// logX, logY: a logarithmic axis. xPad: room beside the first and the last x, as a share of what is in between.
// ignoreBefore: what lies left of it does not stretch the y-range.
// group: plots of one group zoom and point together.
// range, onRange: the part of x in sight, [from, to] or null, where it is kept outside (the address).
//     A zoom goes one way: gesture -> onRange (or the group, or this plot) -> range -> drawn.
// Dragging zooms, a double click or the button shows all again; PNG and CSV save what is shown.
import uPlot from "uplot";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { number } from "./format.js";
import { plotCsv, savePng } from "./plotsave.js";
import { saveBlob } from "./api.js";
import { createStore, prefs, useStore } from "./store.js";
import { Menu } from "./ui/menu.jsx";

const PALETTE = 8;
const LEGEND_LIMIT = 12;

// The theme's colours as the canvas understands them.
function colours(element) {
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

export function aligned(series) {
  if (series.length === 0) return [[]];
  return uPlot.join(series.map((s) => [s.x, s.y]));
}

// The y-range of what is in sight, without what is to be ignored.
function yRange(options) {
  return (u, dataMin, dataMax) => {
    const from = Math.max(u.scales.x.min ?? -Infinity, options.current.ignoreBefore ?? -Infinity);
    const to = u.scales.x.max ?? Infinity;
    let lo = Infinity, hi = -Infinity;
    const xs = u.data[0];
    for (let k = 1; k < u.data.length; k++) {
      if (!u.series[k].show || u.series[k].scale === "x") continue;
      const ys = u.data[k];
      for (let i = 0; i < xs.length; i++) {
        const y = ys[i];
        if (y === null || y === undefined || xs[i] < from || xs[i] > to) continue;
        if (y < lo) lo = y;
        if (y > hi) hi = y;
      }
    }
    if (lo > hi) [lo, hi] = [dataMin ?? 0, dataMax ?? 1]; // nothing but warm-up yet
    for (const at of options.current.include || []) {
      lo = Math.min(lo, at);
      hi = Math.max(hi, at);
    }
    if (options.current.logY) return uPlot.rangeLog(Math.max(lo, 1e-300) / 1.5, Math.max(hi, 1e-300) * 1.5, 10, false);
    if (lo === hi) return [lo - (Math.abs(lo) || 1) * 0.1, hi + (Math.abs(hi) || 1) * 0.1];
    const pad = 0.05 * (hi - lo);
    return options.current.fromZero ? [0, 1.15 * hi] : [lo - pad, hi + pad];
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

// Beside the point, on the side where there is more room.
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

function axis(theme, label, size) {
  return {
    stroke: theme.dim, grid: { stroke: theme.soft, width: 1 }, ticks: { stroke: theme.line, width: 1, size: 4 },
    font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", label, labelSize: label ? 16 : 0, labelGap: 0, size, gap: 4,
    values: (u, splits) => splits.map((v) => (v === null ? "" : axisNumber(v))),
  };
}

const axisNumber = (v) => (v !== 0 && (Math.abs(v) >= 1e6 || Math.abs(v) < 1e-4) ? number(v, 2) : Math.abs(v) >= 1e4 ? number(v, 4) : String(Number(v.toPrecision(6))).replace("-", "−"));

function makeOptions({ options, theme, width, height, zoomTo, onPoint }) {
  const { series, xLabel, yLabel, logX, logY, group } = options.current;
  return {
    width, height, legend: { show: false }, padding: [8, 26, 0, 0],
    cursor: {
      drag: { x: true, y: false, setScale: false }, points: { size: 5 },
      bind: { dblclick: () => () => zoomTo.current(null) },
      // Only where the pointer is is shared; what is dragged is zoomed through zoomTo.
      sync: group ? { key: group, setSeries: false, scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } } : undefined,
    },
    scales: { x: { time: false, distr: logX ? 3 : 1 }, y: { range: yRange(options), distr: logY ? 3 : 1 } },
    axes: [axis(theme, xLabel, 26), { ...axis(theme, yLabel, 56) }],
    series: [{}, ...series.map((s, i) => ({
      label: s.label, stroke: s.faint ? faded(paint(s.color, i, theme), 0.35) : paint(s.color, i, theme), width: s.width ?? 1, dash: s.dash,
      fill: s.fill ? faded(paint(s.color, i, theme), 0.12) : undefined, spanGaps: true, points: { show: s.dots ? true : s.points ?? false, size: s.dots ?? 5, fill: s.dots && paint(s.color, i, theme) }, show: !options.current.hidden?.has(i),
      paths: s.steps ? uPlot.paths.stepped({ align: 1 }) : s.dots ? () => null : undefined,
    }))],
    hooks: {
      drawClear: [drawBands(options, theme)],
      draw: [drawLines(options, theme), drawTags(options, theme)],
      setSelect: [(u) => selected(u, zoomTo.current)],
      setCursor: [onPoint],
    },
  };
}

const DRAG_PX = 6; // less is a click

function selected(u, zoomTo) {
  const { left, width } = u.select;
  if (width < DRAG_PX) return;
  const range = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoomTo(range);
}

function look(u, range, { xPad = 0, logX = false }) {
  const xs = u.data[0];
  if (xs.length < (xPad ? 1 : 2)) return;
  const [min, max] = range ?? extent(xs[0], xs[xs.length - 1], xPad, logX);
  u.setScale("x", { min, max });
}

function extent(min, max, pad, log) {
  if (!pad) return [min, max];
  if (log) return [min / 1.5 / (max / min) ** pad, max * 1.5 * (max / min) ** pad];
  const room = pad * (max - min) || 0.1 * Math.abs(max) || 1;
  return [min - room, max + room];
}

// What the plots of a group look at, while any of them is there.
const groups = createStore({});

function useRange({ range, onRange, group }) {
  const [own, setOwn] = useState(null);
  const shared = useStore(groups, (g) => (group && g[group]) ?? null);
  if (onRange) return [range ?? null, onRange];
  return group ? [shared, (next) => groups.set({ [group]: next })] : [own, setOwn];
}

// Everything that needs a new uPlot rather than new data.
const shapeOf = (p, hidden) => JSON.stringify([p.series.map((s) => [s.label, s.color, s.width, s.dash, s.fill, s.faint, s.points, s.dots, s.tag]), p.xLabel, p.yLabel, p.logX, p.logY, p.height, p.group, [...hidden]]);

export function Plot(props) {
  const { title, note, series, height = 200, name = "plot", legend = series.length > 1 && series.length <= LEGEND_LIMIT } = props;
  const box = useRef();
  const plot = useRef(null);
  const readout = useRef();
  const options = useRef(props);
  const [range, setRange] = useRange(props);
  const zoomTo = useRef(setRange);
  zoomTo.current = setRange;
  const [hidden, setHidden] = useState(() => new Set());
  const theme = useThemeName();
  options.current = { ...props, hidden };

  useLayoutEffect(() => {
    const element = box.current;
    const u = new uPlot(makeOptions({ options, theme: colours(element), width: element.clientWidth || 300, height, zoomTo, onPoint: (p) => showPoint(p, readout.current) }), aligned(series), element);
    plot.current = u;
    look(u, range, props);
    const observer = new ResizeObserver(() => element.clientWidth > 0 && u.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [shapeOf(props, hidden), theme]);

  useEffect(() => {
    plot.current?.setData(aligned(series), false);
  }, [series, props.bands, props.lines, props.ignoreBefore]);
  useEffect(() => {
    if (plot.current) look(plot.current, range, props);
  }, [series, range?.[0], range?.[1]]);

  const saves = [
    { label: "Save as PNG", run: () => savePng(plot.current, { title, note, name, background: colours(box.current) }) },
    { label: "Save as CSV", run: () => saveBlob(new Blob([plotCsv(props.xLabel || "x", series, plot.current.data)], { type: "text/csv" }), `${name}.csv`) },
  ];
  return (
    <figure class="plot" data-plot={name}>
      <figcaption>
        <b class="clip" title={title}>{title}</b>
        {note && <span class="plot-note">{note}</span>}
        <span class="spring" />
        <span class="readout" ref={readout} aria-hidden="true" />
        {range && <button type="button" class="button quiet small" onClick={() => setRange(null)}>Show all</button>}
        <Menu label={`Save the plot ${title}`} items={saves}>⤓</Menu>
      </figcaption>
      <div class="plot-box" ref={box} style={{ height: `${height}px` }} role="img" aria-label={`Plot of ${title}${typeof note === "string" ? `, ${note}` : ""}`} />
      {legend && <Legend series={series} hidden={hidden} setHidden={setHidden} />}
    </figure>
  );
}

function Legend({ series, hidden, setHidden }) {
  const flip = (i) => setHidden((old) => {
    const next = new Set(old);
    if (!next.delete(i)) next.add(i);
    return next;
  });
  return (
    <div class="legend">
      {series.map((s, i) => (
        <button key={i} type="button" aria-pressed={!hidden.has(i)} onClick={() => flip(i)}>
          <i class={s.dash ? "dashed" : ""} style={{ background: s.dash ? "none" : cssColour(s.color, i), borderColor: cssColour(s.color, i), opacity: s.faint ? 0.5 : 1 }} />{s.label}
        </button>
      ))}
    </div>
  );
}

const cssColour = (color, i) => (typeof color === "string" ? `var(--${color})` : paletteVar(color ?? i));

// The values under the pointer, straight into the page: no redraw for every move.
function showPoint(u, element) {
  const { idx } = u.cursor;
  if (!element) return;
  if (idx === null || idx === undefined || u.cursor.left < 0) {
    element.textContent = "";
    return;
  }
  const values = [];
  for (let k = 1; k < u.data.length && values.length < 6; k++) {
    const y = near(u.data[k], idx);
    if (u.series[k].show && y !== null) values.push(number(y, 4));
  }
  element.textContent = `${axisNumber(u.data[0][idx])}: ${values.join("  ")}`;
}

// Series are joined: at this x another one may have its point.
function near(ys, idx) {
  for (let d = 0; d < 8; d++) {
    const y = ys[idx - d] ?? ys[idx + d];
    if (y !== null && y !== undefined) return y;
  }
  return null;
}

// Changes when the colours do.
export function useThemeName() {
  const chosen = useStore(prefs, (p) => p.theme);
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const look = () => setDark(query.matches);
    query.addEventListener("change", look);
    return () => query.removeEventListener("change", look);
  }, []);
  return chosen === "auto" ? (dark ? "dark" : "light") : chosen;
}
