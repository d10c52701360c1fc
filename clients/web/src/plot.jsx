// Line plots with shaded bands and threshold lines, on uPlot.
//
//     <Plot title="theta[1]" name="job-theta1" note="R-hat 1.003" height={180}
//       series={[{ label: "chain 1", x: [...], y: [...] }]} xLabel="iteration"
//       bands={[{ axis: "x", from: 0, to: 1000, label: "warm-up" }]}
//       lines={[{ axis: "y", at: 1.01, label: "1.01" }]} ignoreBefore={1000} />
//
// series: {label, x, y, color, width, dash, fill, faint, dots, tag}; each has its own x. color is a number
//     (of the palette: chains, jobs) or a CSS colour; default: the index of the series. dots: points of
//     that many pixels and no line; tag: label beside the first point; trail {xError, yError}: a line through the
//     points in their order, with error bars.
// logX, logY: a logarithmic axis. xPad: margin beside the first and last x, as a fraction of the range.
// ignoreBefore: points left of it do not count for the y range.
// group: plots of one group share zoom and cursor.
// range, onRange: the visible x range, [from, to] or null, if it is kept outside (in the URL).
//     Data flow of a zoom: gesture -> view -> drawing, and at the end of the gesture -> onRange -> range (zoom.js).
// Dragging and Ctrl+wheel zoom (keyboard: + and -), a double click or the button resets the zoom. PNG and CSV save
// the plot. Plots outside the viewport are not drawn (paint.js).
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { saveBlob } from "./api.js";
import { PlotCanvas } from "./plotcanvas.js";
import { aligned } from "./plotdata.js";
import { colours, paletteVar } from "./plotdraw.js";
import { plotCsv, savePng } from "./plotsave.js";
import { prefs, useStore } from "./store.js";
import { Menu } from "./ui/menu.jsx";
import { useView } from "./zoom.js";

const LEGEND_LIMIT = 12;

// The properties whose change needs a new canvas.
const shapeOf = (p, hidden) => JSON.stringify([p.series.map((s) => [s.label, s.color, s.width, s.dash, s.fill, s.faint, s.points, s.dots, s.tag]), p.xLabel, p.yLabel, p.logX, p.logY, p.height, p.group, [...hidden]]);

export function Plot(props) {
  const { title, note, series, height = 200, name = "plot", legend = series.length > 1 && series.length <= LEGEND_LIMIT } = props;
  const box = useRef();
  const canvas = useRef(null);
  const readout = useRef();
  const options = useRef(props);
  const [view, range] = useView(props);
  const [hidden, setHidden] = useState(() => new Set());
  const theme = useThemeName();
  options.current = { ...props, hidden };

  useLayoutEffect(() => {
    const old = canvas.current;
    const made = new PlotCanvas(box.current, { options, view, height, readout });
    made.replaces(old);
    canvas.current = made;
    return () => made.free();
  }, [shapeOf(props, hidden), theme, view]);
  useEffect(() => canvas.current.changed(), [series, props.bands, props.lines, props.ignoreBefore]);

  const saves = [
    { label: "Save as PNG", run: () => savePng(canvas.current.u, { title, note, name, background: colours(box.current) }) },
    { label: "Save as CSV", run: () => saveBlob(new Blob([plotCsv(props.xLabel || "x", series, aligned(series))], { type: "text/csv" }), `${name}.csv`) },
  ];
  return (
    <figure class="plot" data-plot={name}>
      <figcaption>
        <b class="clip" title={title}>{title}</b>
        {note && <span class="plot-note">{note}</span>}
        <span class="readout" ref={readout} aria-hidden="true" />
        {range && <button type="button" class="button quiet small" onClick={() => view.choose(null)}>Show all</button>}
        <Menu label={`Save the plot ${title}`} items={saves}>⤓</Menu>
      </figcaption>
      <div class="plot-box" ref={box} style={{ height: `${height}px` }} role="img" aria-label={`Plot of ${title}${typeof note === "string" ? `, ${note}` : ""}`}
        tabIndex={0} aria-keyshortcuts="+ - 0" onKeyDown={(event) => canvas.current.key(event)} />
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

// The effective theme, light or dark.
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
