// The picture of a sweep: one curve per group of settings, with Monte-Carlo errors.
import { useMemo } from "preact/hooks";
import { reachOf } from "../../plottrail.js";
import { fileName } from "../../params.js";
import { Plot } from "../../plot.jsx";
import { useQuery } from "../../router.js";
import { Empty } from "../../ui/states.jsx";
import { columnLabel, curvesOf, isSetting, seriesOf, suitsLog, valueOf } from "./rows.js";

const first = (names, have) => names.find((name) => have.includes(name));

function Choose({ label, value, columns, onChange }) {
  return (
    <label class="check"><span>{label}</span>
      <select aria-label={label} value={value} onChange={(e) => onChange(e.currentTarget.value)}>{columns.map((c) => <option key={c} value={c}>{columnLabel(c)}</option>)}</select></label>
  );
}

const isLog = (rows, column, job) => suitsLog(rows.map((row) => valueOf(row, column, job)).filter((x) => typeof x === "number"));

// The bias that noise alone would show, as a band of that axis.
function noiseBand(rows, axis, column) {
  const noise = rows.map((row) => valueOf(row, "bias_mean_noise")).filter((x) => x > 0).sort((a, b) => a - b);
  return column === "bias_mean_mean" && noise.length ? [{ axis, from: 1e-300, to: noise[noise.length >> 1] }] : [];
}

export function Curves({ study, rows, job, swept, axis, measures }) {
  const settings = swept.filter((s) => s.numeric).map((s) => s.pointer);
  const [x, setX] = useQuery("x", first(["bias_mean_mean", "bias_variance_mean"], measures) ?? axis ?? measures[0] ?? "");
  const [y, setY] = useQuery("y", isSetting(x) ? first(["ess_median"], measures) ?? measures[0] ?? "" : first(["ess_median"], measures) ?? "");
  const [scale, setScale] = useQuery("scale", "auto");
  const logX = scale === "auto" && isLog(rows, x, job), logY = scale === "auto" && isLog(rows, y, job);
  const series = useMemo(() => curvesOf(rows, swept, axis, job).map((curve, i) => ({ ...seriesOf(curve, x, y, { job, logX, logY }), color: i })).filter((s) => s.x.length), [rows, x, y, axis, logX, logY]);
  const include = useMemo(() => reachOf(series, logY), [series]);
  const bands = useMemo(() => [...noiseBand(rows, "x", x), ...noiseBand(rows, "y", y)], [rows, x, y]);
  const drawn = series.reduce((n, s) => n + s.x.length, 0);
  if (!measures.length) return <Empty title="No points yet">The picture appears when the first jobs have ended.</Empty>;
  return (
    <div class="stack">
      <div class="bar-top picks">
        <Choose label="Vertical" value={y} columns={measures} onChange={setY} />
        <Choose label="against" value={x} columns={[...settings, ...measures]} onChange={setX} />
        <span class="spring" />
        <select aria-label="Axes" value={scale} onChange={(e) => setScale(e.currentTarget.value)}><option value="auto">logarithmic where it suits</option><option value="linear">linear</option></select>
      </div>
      {drawn === 0 ? <Empty title="No points">No setting has both numbers yet.</Empty>
        : <div class="plots wide"><Plot title={`${columnLabel(y)} against ${columnLabel(x)}`} note="bars: ± 2 standard errors" name={`${fileName(study.name)}-${fileName(y)}`} height={420} series={series}
          xLabel={columnLabel(x)} yLabel={columnLabel(y)} logX={logX} logY={logY} include={include} bands={bands} xPad={0.06} legend={series.length <= 24} /></div>}
      <p class="dim">{axis ? `A curve runs through its settings in the order of ${columnLabel(axis)}.` : "Points are in the order of the grid."} {bands.length > 0 && "Shaded: what Monte-Carlo errors alone would show as bias (median of the settings)."} {drawn < rows.length && `${rows.length - drawn} of ${rows.length} settings are not shown: they have no value${logX || logY ? ", or none above 0" : ""}.`}</p>
    </div>
  );
}
