// Parallel coordinates: one line per setting through its settings and results.
import { useMemo, useState } from "preact/hooks";
import { axisNumbers, count, number } from "../../format.js";
import { columnLabel, curvesOf, scaleOf, settingText, valueOf } from "./rows.js";

const STEP = 130, TOP = 46, HEIGHT = 300, SIDE = 70, BOTTOM = 26;
const MOST = 1000; // lines; of more settings, an even part
const RESULTS = ["ess_median", "ess_min", "bias_mean_mean", "bias_variance_mean", "max_rhat"];

// Lines of the same setting, cut where a value is missing.
function pathOf(places) {
  let path = "", pen = "M";
  places.forEach((at, i) => {
    if (at === null) pen = "M";
    else {
      path += `${pen}${SIDE + i * STEP} ${TOP + (1 - at) * HEIGHT}`;
      pen = "L";
    }
  });
  return path;
}

function Axis({ i, column, scale }) {
  const x = SIDE + i * STEP;
  const ends = scale.ends ? axisNumbers(scale.ends[0] === scale.ends[1] ? [scale.ends[0]] : scale.ends.map((v) => Number(v.toPrecision(3)))) : [];
  const labels = scale.names ? scale.names.map((name) => [name, scale.at(name)]) : ends.map((text, k) => [text, ends.length === 1 ? 0.5 : k]);
  return (
    <g>
      <line x1={x} x2={x} y1={TOP} y2={TOP + HEIGHT} class="axis" />
      <text x={x} y={14} class="name">{columnLabel(column).split(" (")[0]}</text>
      {(columnLabel(column).includes(" (") || scale.log) && <text x={x} y={28} class="dim">{[columnLabel(column).split(" (")[1]?.replace(")", ""), scale.log && "log"].filter(Boolean).join(", ")}</text>}
      {labels.map(([text, at]) => <text key={text} x={x} y={scale.ends && at !== 0.5 ? (at ? TOP - 5 : TOP + HEIGHT + 15) : TOP + (1 - at) * HEIGHT + 4} class="value">{text}</text>)}
    </g>
  );
}

export function Parallel({ rows, job, swept, axis, measures, best }) {
  const [over, setOver] = useState(null);
  const results = measures.filter((name) => RESULTS.includes(name) || name === best?.by || name.endsWith("_ergodic"));
  const columns = [...swept.map((s) => s.pointer), ...results];
  const scales = useMemo(() => columns.map((column) => scaleOf(rows.map((row) => valueOf(row, column, job)))), [rows, columns.join()]);
  const every = Math.ceil(rows.length / MOST);
  const lines = useMemo(() => curvesOf(rows, swept, axis, job)
    .flatMap((curve, k) => curve.rows.map((row) => ({ row, k, path: pathOf(columns.map((column, i) => scales[i].at(valueOf(row, column, job)))) })))
    .filter(({ row }, i) => i % every === 0 || row.index === best?.index), [scales]);
  const width = 2 * SIDE + (columns.length - 1) * STEP;
  const shown = lines.find(({ row }) => row.index === (over ?? best?.index));
  return (
    <div class="stack">
      <p class="dim">{shown ? <><b>{over === null ? "Best: " : ""}setting {shown.row.index}</b> {settingText(shown.row, swept, job)}: {results.map((name) => `${columnLabel(name)} ${number(valueOf(shown.row, name), 3)}`).join(", ")}</> : "A line is a setting; point at one to read it."}{every > 1 && ` One in ${every} of ${count(rows.length)} settings is drawn.`}</p>
      <div class="card scroll-x">
        <svg class="parallel" role="img" aria-label="Parallel coordinates of settings and results" style={{ minWidth: `${width}px`, maxWidth: `${1.25 * width}px` }} viewBox={`0 0 ${width} ${TOP + HEIGHT + BOTTOM}`} onPointerLeave={() => setOver(null)}>
          {lines.map(({ row, k, path }) => <path key={row.index} d={path} style={{ stroke: `var(--c${(k % 8) + 1})` }} class={shown?.row === row ? "on" : over !== null ? "off" : ""} onPointerEnter={() => setOver(row.index)} />)}
          {columns.map((column, i) => <Axis key={column} i={i} column={column} scale={scales[i]} />)}
        </svg>
      </div>
      <ul class="compare-legend">{curvesOf(rows, swept, axis, job).slice(0, 24).map(({ label }, k) => <li key={label} class="chip"><i class={`swatch c${(k % 8) + 1}`} aria-hidden="true" />{label}</li>)}</ul>
    </div>
  );
}
