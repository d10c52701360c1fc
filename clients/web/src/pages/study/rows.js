// The table of a sweep as curves, scales and marks. Pure functions.
import { getAt } from "../new/document.js";

const known = (x) => typeof x === "number" && Number.isFinite(x);
const text = (value) => (typeof value === "string" ? value : value === undefined || value === null ? "–" : JSON.stringify(value));

// ---- what a column is ----

const NAMES = {
  ess_median: "median ESS", ess_min: "smallest ESS",
  ess_median_per_second: "median ESS per second", ess_min_per_second: "smallest ESS per second",
  ess_median_per_gradient: "median ESS per gradient", ess_min_per_gradient: "smallest ESS per gradient",
  max_rhat: "largest R-hat",
  bias_mean_mean: "bias of means (mean)", bias_mean_median: "bias of means (median)", bias_mean_max: "bias of means (largest)", bias_mean_noise: "bias of means by noise alone",
  bias_variance_mean: "bias of variances (mean)", bias_variance_median: "bias of variances (median)", bias_variance_max: "bias of variances (largest)",
  variance_ratio_median: "variance ratio (median)", variance_ratio_min: "variance ratio (smallest)", variance_ratio_max: "variance ratio (largest)",
  certified_mean: "certified bound of means", certified_sd: "certified bound of sds",
  draws: "draws", iterations: "iterations", gradients: "gradients", cpu_seconds: "processor time (s)",
};

// "/sampler/step_size" is a setting, "ess_min" and "log_loss_draw" are measures.
export const isSetting = (column) => column.startsWith("/");
// "/sampler/step_size" is the step size, "/sampler/name" the sampler.
export const settingLabel = (pointer) => pointer.replace(/\/name$/, "").split("/").at(-1).replaceAll("_", " ");

export function columnLabel(column) {
  if (isSetting(column)) return settingLabel(column);
  const metric = /^(.*)_(draw|ergodic)$/.exec(column);
  return NAMES[column] ?? (metric ? `${metric[1].replaceAll("_", " ")} (${metric[2] === "draw" ? "per draw" : "ergodic"})` : column);
}

// The value of a row in a column; of a pointer that its group leaves out, that of the job.
export function valueOf(row, column, job) {
  if (!isSetting(column)) return row.measures?.[column]?.value ?? null;
  return Object.hasOwn(row.setting, column) ? row.setting[column] : getAt(job, column) ?? null;
}

export const errorOf = (row, column) => (isSetting(column) ? null : row.measures?.[column]?.error ?? null);

// ---- settings ----

// [{pointer, values, numeric}] of the pointers with more than one value; of all pointers if there are none.
export function sweptOf(rows, job) {
  const pointers = new Set();
  for (const row of rows) for (const pointer of Object.keys(row.setting)) pointers.add(pointer);
  const all = [...pointers].map((pointer) => {
    const values = [...new Map(rows.map((row) => valueOf(row, pointer, job)).map((value) => [text(value), value])).values()];
    return { pointer, values, numeric: values.every(known) };
  });
  const several = all.filter(({ values }) => values.length > 1);
  return several.length ? several : all;
}

// The setting along which curves run: the step size, or the number with the most values.
export function axisOf(swept) {
  const numbers = swept.filter((s) => s.numeric);
  const step = numbers.find((s) => s.pointer === "/sampler/step_size");
  return (step ?? numbers.reduce((most, s) => (!most || s.values.length > most.values.length ? s : most), null))?.pointer ?? null;
}

// "vanilla, sgld, chains 4": numbers with their names.
export const settingText = (row, swept, job) => swept.map(({ pointer, numeric }) => (numeric ? `${settingLabel(pointer)} ` : "") + text(valueOf(row, pointer, job))).join(", ");

// [{label, rows}]: the rows that differ in the axis only, in its order.
export function curvesOf(rows, swept, axis, job) {
  const others = swept.filter(({ pointer }) => pointer !== axis);
  const curves = new Map();
  for (const row of rows) {
    const label = settingText(row, others, job) || "all settings";
    if (!curves.has(label)) curves.set(label, []);
    curves.get(label).push(row);
  }
  const along = (row) => Number(valueOf(row, axis, job));
  return [...curves].map(([label, list]) => ({ label, rows: axis ? [...list].sort((a, b) => along(a) - along(b)) : list }));
}

// ---- numbers on axes ----

// Whether a logarithmic axis suits: almost all values are positive, and they differ by a factor of 3.
export function suitsLog(values) {
  const positive = values.filter((x) => x > 0);
  return positive.length > 1 && positive.length >= 0.9 * values.length && Math.max(...positive) >= 3 * Math.min(...positive);
}

// The points of a curve that both axes can show, as a series of a plot with error bars.
export function seriesOf(curve, xColumn, yColumn, { job, logX, logY }) {
  const points = curve.rows.map((row) => ({ row, x: valueOf(row, xColumn, job), y: valueOf(row, yColumn, job) }))
    .filter(({ x, y }) => known(x) && known(y) && !(logX && x <= 0) && !(logY && y <= 0));
  const list = (pick) => points.map(pick);
  return {
    label: curve.label, x: list((p) => p.x), y: list((p) => p.y),
    trail: { xError: list(({ row }) => errorOf(row, xColumn)), yError: list(({ row }) => errorOf(row, yColumn)) },
  };
}

// Positions from 0 to 1 along one axis of parallel coordinates: numbers by size, other values side by side.
export function scaleOf(values) {
  const there = values.filter((x) => x !== null && x !== undefined);
  if (there.length && there.every(known)) {
    const log = suitsLog(there) && there.every((x) => x > 0), size = log ? Math.log : (x) => x;
    const min = Math.min(...there), max = Math.max(...there), range = size(max) - size(min);
    return { log, ends: [min, max], names: null, at: (x) => (known(x) ? (range > 0 ? (size(x) - size(min)) / range : 0.5) : null) };
  }
  const names = [...new Set(there.map(text))];
  return { log: false, ends: null, names, at: (x) => (x === null || x === undefined ? null : names.length > 1 ? names.indexOf(text(x)) / (names.length - 1) : 0.5) };
}

// ---- order and marks ----

// Rows without a value come last in both directions.
export function sortedBy(rows, column, down, job) {
  const sign = down ? -1 : 1;
  const compare = (a, b) => (known(a) && known(b) ? a - b : text(a).localeCompare(text(b)));
  return rows.map((row) => ({ row, value: column === "index" ? row.index : valueOf(row, column, job) }))
    .sort((a, b) => (a.value === null || b.value === null ? (a.value === null) - (b.value === null) : sign * compare(a.value, b.value)) || a.row.index - b.row.index)
    .map(({ row }) => row);
}

const within = (row, { at_most: most = {}, at_least: least = {} }) =>
  Object.entries(most ?? {}).every(([name, limit]) => known(valueOf(row, name)) && valueOf(row, name) <= limit)
  && Object.entries(least ?? {}).every(([name, limit]) => known(valueOf(row, name)) && valueOf(row, name) >= limit);

// index -> "best", "rival" (as the daemon found them) or "worst" of the rows that keep the bounds of the rule.
export function marksOf(rows, rule, best) {
  const marks = new Map();
  if (!rule || !best) return marks;
  const sign = rule.maximize ? 1 : -1;
  const able = rows.filter((row) => known(valueOf(row, best.by)) && within(row, rule));
  const worst = able.reduce((least, row) => (!least || sign * valueOf(row, best.by) < sign * valueOf(least, best.by) ? row : least), null);
  if (worst) marks.set(worst.index, "worst");
  for (const index of best.rivals) marks.set(index, "rival");
  marks.set(best.index, "best");
  return marks;
}
