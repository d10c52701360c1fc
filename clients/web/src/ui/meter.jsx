// ProgressBar: value from 0 to 1, null if unknown; mark: a position on it, such as the end of warm-up.
// Meter: a value relative to its limit, on a log scale.
import { percent } from "../format.js";

export function ProgressBar({ value, tone = "", label, mark = 0 }) {
  const known = typeof value === "number";
  return (
    <span class={`bar ${tone}`} role="progressbar" aria-label={label} aria-valuemin="0" aria-valuemax="100"
      aria-valuenow={known ? Math.floor(100 * value) : undefined} title={known ? percent(value, 1) : "unknown"}>
      <i style={{ width: `${known ? Math.max(0, Math.min(1, value)) * 100 : 0}%` }} />
      {mark > 0 && mark < 1 && <b style={{ left: `${mark * 100}%` }} />}
    </span>
  );
}

// ratio = value / limit. The mark in the middle is the limit.
export function Meter({ ratio, label }) {
  const known = typeof ratio === "number" && Number.isFinite(ratio);
  const place = known ? Math.max(0, Math.min(1, 0.5 + Math.log10(Math.max(ratio, 1e-9)) / 3)) : 0;
  const tone = !known ? "" : ratio > 3 ? "bad" : ratio > 1 ? "warn" : "good";
  return (
    <span class={`meter ${tone}`} role="meter" aria-label={label} aria-valuemin="0" aria-valuemax="30"
      aria-valuenow={known ? ratio : undefined}>
      <i style={{ width: `${place * 100}%` }} /><b aria-hidden="true" />
    </span>
  );
}
