// A job's state, a tag, a level of the verdict.
export function StateMark({ state }) {
  return <span class={`mark state-${state}`}><i aria-hidden="true" />{state}</span>;
}

export function Tag({ name, onClick, pressed }) {
  if (!onClick) return <span class="tag">{name}</span>;
  return <button type="button" class="tag" aria-pressed={pressed} onClick={onClick}>{name}</button>;
}

const TONES = {
  good: "good", "none seen": "good", none: "good",
  fair: "warn", mild: "warn",
  poor: "bad", strong: "bad",
};

// That all checks have found nothing is no proof.
const LEVELS = { "none seen": "no bias found" };

// A level of the verdict, coloured.
export function Level({ level, name }) {
  return <span class={`level ${TONES[level] || "unknown"}`}>{name ? `${name} ${level}` : LEVELS[level] ?? level}</span>;
}

export const toneOf = (level) => TONES[level] || "unknown";
