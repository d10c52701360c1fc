// Bars. ProgressBar: 0..1, null for "not known"; mark: a place on it, such as the end of warm-up.
// Meter: a value against its limit, on a log scale, so that 1/10 and 10 times the limit are equally
// far from it.
import { percent } from "../format.js";

export function ProgressBar({ value, tone = "", label, mark = 0 }) {
  const known = typeof value === "number";
  return (
    <span class={`bar ${tone}`} role="progressbar" aria-label={label} aria-valuemin="0" aria-valuemax="100"
      aria-valuenow={known ? Math.floor(100 * value) : undefined} title={known ? percent(value, 1) : "not known"}>
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
