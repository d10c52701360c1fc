// Fields for the settings of a model or sampler, generated from the daemon's description.
import { boundsOf, pointerTo, readNumbers, readOneOrMore, showWords, stepAs, stepKind } from "./document.js";
import { Choice, Entry, Flag, NumberEntry } from "./fields.jsx";

const hintOf = (setting) => {
  const bounds = boundsOf(setting);
  return bounds ? `${setting.help.replace(/\.$/, "")}; ${bounds}` : setting.help;
};

export function Settings({ form, under, entry }) {
  return entry ? entry.parameters.map((s) => <Setting key={`${entry.name}.${s.name}`} form={form} at={pointerTo(under, s.name)} setting={s} entry={entry} />) : null;
}

function Setting({ form, at, setting, entry }) {
  const label = <code>{setting.name}</code>;
  const hint = hintOf(setting);
  if (setting.kind === "step_size") return <StepSize form={form} at={at} setting={setting} entry={entry} />;
  if (setting.kind === "boolean") return <Flag form={form} at={at} label={label} hint={hint} fallback={setting.default} />;
  if (setting.kind === "choice")
    return <Choice form={form} at={at} label={label} hint={hint} fallback={setting.default} options={setting.choices} />;
  if (setting.list) return <Entry form={form} at={at} label={label} hint={hint} placeholder={String(setting.default)} read={readOneOrMore} show={showWords} />;
  if (setting.kind === "number" || setting.kind === "integer") return <NumberEntry form={form} at={at} label={label} hint={hint} placeholder={String(setting.default)} />;
  return <Entry form={form} at={at} label={label} hint={hint} placeholder={String(setting.default)} />;
}

function StepSize({ form, at, setting, entry }) {
  const value = form.get(at);
  const kind = stepKind(value);
  const sigma = typeof value === "object" && !Array.isArray(value) ? at + "/value" : at;
  const kinds = [["auto", "automatic"], ["number", "one for all parameters"], ["list", "one per parameter"], ...(entry.schedule ? [["schedule", "decreasing schedule"]] : [])];
  const fraction = { ...form, get: () => (typeof value === "object" ? value.fraction : undefined), set: (_, f) => form.set(at, f === undefined ? undefined : { kind: "auto", fraction: f }) };
  return (
    <div class="step">
      <Choice form={form} at={at} label={<code>{setting.name}</code>} hint={setting.help} value={kind} options={kinds} problem={form.problem(at, kind === "auto")}
        onChange={(v) => form.set(at, stepAs(value, v))} />
      {kind === "number" && <NumberEntry form={form} at={sigma} label="sigma" empty="" placeholder="0.01" hint="the same for every parameter" />}
      {kind === "list" && <NumberList form={form} at={sigma} label="sigma" />}
      {kind === "schedule" && <Schedule form={form} at={at} value={value} />}
      {kind === "auto" && !entry.exact && <NumberEntry form={fraction} at={at + "/fraction"} label="fraction" placeholder="automatic" hint="if set, step sizes are adapted during warm-up to this fraction of each posterior sd; ≤ 2" />}
    </div>
  );
}

function Schedule({ form, at, value }) {
  const many = Array.isArray(value?.value);
  return (
    <>
      {many ? <NumberList form={form} at={at + "/value"} label="value" /> : <NumberEntry form={form} at={at + "/value"} label="value" empty="" placeholder="0.01" hint="sigma at the start" />}
      <NumberEntry form={form} at={at + "/t0"} label="t0" or="default" hint="sigma decreases as (1 + t/t0)^(−gamma)" />
      <NumberEntry form={form} at={at + "/gamma"} label="gamma" or="default" hint="> 0 and ≤ 1" />
    </>
  );
}

export function NumberList({ form, at, label, hint }) {
  const value = form.get(at);
  const dimension = form.dimension;
  const have = Array.isArray(value) ? `; ${value.length} of ${dimension ?? "?"} values entered` : "";
  return <Entry form={form} at={at} label={label} area rows={3} read={readNumbers} show={showWords} hint={hint ?? `separated by commas or spaces${have}`} placeholder="0.01, 0.02, …" />;
}
