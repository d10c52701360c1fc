// R-hat and ESS, coloured by their thresholds.
import { ess, rhat } from "../format.js";

function tone(value, warn, bad, down = false) {
  if (typeof value !== "number") return "";
  const beyond = (limit) => (down ? value < limit : value > limit);
  return beyond(bad) ? "text-bad" : beyond(warn) ? "text-warn" : "text-good";
}

export const RHAT_GOOD = 1.01, RHAT_FAIR = 1.05, ESS_GOOD = 400, ESS_FAIR = 100;

export const RhatText = ({ value }) => <span class={tone(value, RHAT_GOOD, RHAT_FAIR)}>{rhat(value)}</span>;
export const EssText = ({ value }) => <span class={tone(value, ESS_GOOD, ESS_FAIR, true)}>{ess(value)}</span>;
