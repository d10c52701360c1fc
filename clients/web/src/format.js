// Numbers, times and sizes for display: roundings of what the daemon sent. null is shown as NONE.

export const NONE = "–";
const THIN = "\u202f";

const known = (x) => typeof x === "number" && Number.isFinite(x);

// Groups of three, from five digits on: 52 580.
export function count(x) {
  if (!known(x)) return NONE;
  const text = Math.abs(Math.round(x)).toString();
  const grouped = text.length > 4 ? text.replace(/\B(?=(\d{3})+$)/g, THIN) : text;
  return (Math.round(x) < 0 ? "−" : "") + grouped;
}

// `digits` significant digits; scientific notation for very large and very small numbers.
export function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return NONE;
  if (!known(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return minus(x.toExponential(Math.max(0, digits - 1)).replace("e+", "e"));
  if (size >= 10 ** digits) return count(x);
  return minus(x.toPrecision(digits));
}

// The digits needed to show every value to within 1% of the smallest step between neighbours.
function axisDigits(values) {
  const step = values.reduce((least, x, i) => (i > 0 && x !== values[i - 1] ? Math.min(least, Math.abs(x - values[i - 1])) : least), Infinity);
  let digits = 2;
  while (digits < 15 && values.some((x) => Math.abs(Number(x.toPrecision(digits)) - x) > step / 100)) digits++;
  return digits;
}

// Axis labels, short and all different; "" for null.
export function axisNumbers(values) {
  const digits = axisDigits(values.filter((x) => x !== null));
  return values.map((x) => {
    if (x === null) return "";
    const size = Math.abs(x);
    if (x !== 0 && (size >= 1e6 || size < 1e-4)) return number(x, digits);
    return size >= 1e4 && Number.isInteger(x) ? count(x) : minus(String(Number(x.toPrecision(Math.max(6, digits)))));
  });
}

// A fixed number of decimals, for columns of a table.
export function fixed(x, decimals = 2) {
  return known(x) ? minus(x.toFixed(decimals)) : NONE;
}

const minus = (text) => text.replace(/^-/, "−").replace(/e-/, "e−");

// R-hat with enough decimals to show its distance from 1: 1.004, 1.08, 2.3.
export function rhat(x) {
  if (!known(x)) return NONE;
  return x < 1.1 ? x.toFixed(3) : x < 10 ? x.toFixed(2) : number(x, 3);
}

export function ess(x) {
  return known(x) ? (x < 100 ? number(x, 2) : count(x)) : NONE;
}

export function percent(x, decimals = 0) {
  return known(x) ? minus((100 * x).toFixed(decimals)) + "%" : NONE;
}

export function ratio(x) {
  return known(x) ? (x >= 10 ? count(x) : number(x, 2)) + " ×" : NONE;
}

// |value / reference − 1|; above 100 % as a multiple: 950 × instead of 94 900 %.
export function offBy(x) {
  return known(x) && x > 1 ? ratio(1 + x) : percent(x, 1);
}

export function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  const two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)} min`;
  const m = Math.round(seconds / 60);
  if (m < 48 * 60) return `${Math.floor(m / 60)}:${two(m % 60)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

export function bytes(n) {
  if (!known(n)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (n >= 999.5 && at < units.length - 1) {
    n /= 1000;
    at++;
  }
  return `${at === 0 || n >= 99.95 ? Math.round(n) : n.toFixed(1)} ${units[at]}`;
}

// 14:03:22 today, "16 Nov 14:03" this year, "16 Nov 2025" before.
export function time(text, now = new Date()) {
  if (!text) return NONE;
  const t = new Date(text);
  if (Number.isNaN(t.getTime())) return NONE;
  const two = (n) => String(n).padStart(2, "0");
  const clock = `${two(t.getHours())}:${two(t.getMinutes())}`;
  if (t.toDateString() === now.toDateString()) return `${clock}:${two(t.getSeconds())}`;
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][t.getMonth()];
  return t.getFullYear() === now.getFullYear() ? `${t.getDate()} ${month} ${clock}` : `${t.getDate()} ${month} ${t.getFullYear()}`;
}

export function ago(text, now = Date.now()) {
  if (!text) return NONE;
  const seconds = (now - new Date(text).getTime()) / 1000;
  return seconds < 1 ? "now" : `${duration(Math.max(0, seconds))} ago`;
}

// "sgbd, corrected"
export function samplerName(request) {
  const sampler = request?.sampler;
  if (!sampler) return NONE;
  if (typeof sampler === "string") return sampler;
  return sampler.variant ? `${sampler.name}, ${sampler.variant}` : sampler.name;
}

export function modelName(request) {
  const model = request?.model;
  return !model ? NONE : typeof model === "string" ? model : model.name;
}

// The job has reached a final state.
export const hasEnded = (job) => ["succeeded", "failed", "cancelled"].includes(job?.state);

export function plural(n, one, many = one + "s") {
  return `${count(n)} ${n === 1 ? one : many}`;
}
