// The draft of a job, as the document that POST /v1/jobs takes. The form has no other state: fields read and
// write this document by JSON pointer, so that form and JSON cannot differ, and fields unknown to the form are
// preserved.
import { splitNames } from "../../params.js";
import { settingPointer } from "../../settingnames.js";

const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export const parts = (pointer) => pointer.split("/").slice(1).map((p) => p.replace(/~1/g, "/").replace(/~0/g, "~"));
export const pointerTo = (...keys) => keys.map((k) => "/" + String(k).replace(/~/g, "~0").replace(/\//g, "~1")).join("");

// undefined if absent; null counts as absent, as it does for the daemon.
export function getAt(doc, pointer) {
  let at = doc;
  for (const key of parts(pointer)) {
    const bare = typeof at === "string" && key === "name"; // "model": "logistic"
    if (!bare) at = typeof at === "object" && at !== null && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at === null ? undefined : at;
}

// The usual order of the fields of a job; others come last.
const ORDER = ["name", "note", "tags", "model", "data", "sampler", "gradient", "precondition", "batch_size", "replacement", "iterations", "warmup", "thin", "chains", "target", "seed"];
const placeOf = (key) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length);

export function ordered(doc) {
  return Object.fromEntries(Object.entries(doc).map((entry, i) => [entry, i]).sort(([[a], i], [[b], j]) => placeOf(a) - placeOf(b) || i - j).map(([entry]) => entry));
}

// Returns a changed copy. undefined removes the field, and its parents if they become empty. A model or sampler
// given as a name becomes an object when it gets a setting.
export function setAt(doc, pointer, value) {
  const put = (at, [key, ...rest]) => {
    const old = isObject(at) ? at : typeof at === "string" ? { name: at } : {};
    const next = rest.length ? put(old[key], rest) : value;
    const { [key]: gone, ...others } = old;
    if (next !== undefined) return key in old ? { ...old, [key]: next } : { ...others, [key]: next };
    return Object.keys(others).length ? others : undefined;
  };
  return ordered(put(doc, parts(pointer)) ?? {});
}

export const nameOf = (choice) => (typeof choice === "string" ? choice : isObject(choice) ? choice.name : undefined);

// ---- text of fields ----

// "" gives undefined. Text that is not a number is kept as text; the daemon reports the error.
export function readNumber(text) {
  const plain = text.replace(/[\s_\u202f]/g, "").replace(/^−/, "-");
  if (plain === "") return undefined;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) && Number.isFinite(Number(plain)) ? Number(plain) : text;
}

export const readText = (text) => (text === "" ? undefined : text);

// The text of a value in a field that accepts several types.
export const showText = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : typeof value === "number" ? String(value) : JSON.stringify(value));

export const readWords = (text) => {
  const words = text.split(",").map((t) => t.trim()).filter(Boolean);
  return words.length ? words : undefined;
};
export const readLines = (text) => text.split("\n").map((t) => t.trim()).filter(Boolean);
export const readNames = (text) => splitNames(text.replace(/\n/g, ","));
export const readNumbers = (text) => text.split(/[\s,;]+/).filter(Boolean).map(readNumber);
// One number, or a list of numbers.
export function readOneOrMore(text) {
  const all = readNumbers(text);
  return all.length > 1 || /[,;]\s*$/.test(text) ? all : readNumber(text);
}

const list = (between) => (value) => (Array.isArray(value) ? value.map(showText).join(between) : showText(value));
export const showWords = list(", ");
export const showLines = list("\n");

// "> 0 and ≤ 1": the bounds of a setting.
export function boundsOf({ minimum, exclusive_minimum: above, maximum }) {
  const low = above !== undefined ? `> ${above}` : minimum !== undefined ? `≥ ${minimum}` : "";
  const high = maximum !== undefined ? `≤ ${maximum}` : "";
  return [low, high].filter(Boolean).join(low && high ? " and " : "");
}

// ---- step sizes: a number, a list, "auto", or an object ----

export function stepKind(value) {
  if (value === undefined || value === null || value === "auto") return "auto";
  if (Array.isArray(value)) return "list";
  if (!isObject(value)) return "number";
  if (value.kind === "auto") return "auto";
  if (value.kind === "constant") return Array.isArray(value.value) ? "list" : "number";
  return "schedule";
}

// Converts a step size to another kind, keeping what applies.
export function stepAs(value, kind) {
  const sigma = isObject(value) ? value.value : value === "auto" ? undefined : value;
  const one = Array.isArray(sigma) ? sigma[0] : sigma;
  if (kind === "auto") return undefined;
  if (kind === "list") return Array.isArray(sigma) ? sigma : one === undefined ? [] : [one];
  if (kind === "schedule") return sigma === undefined ? { kind: "schedule" } : { kind: "schedule", value: sigma };
  return one === undefined ? "" : one;
}

// ---- changing the model or sampler ----

function allowed(setting, value, { schedule = true, exact = false } = {}) {
  if (setting.kind === "choice") return setting.choices.includes(value);
  if (setting.kind !== "step_size") return true;
  return (schedule || stepKind(value) !== "schedule") && !(exact && isObject(value) && value.kind === "auto");
}

function carriedOver(choice, next) {
  const out = { name: next.name };
  for (const setting of next.parameters)
    if (isObject(choice) && setting.name in choice && allowed(setting, choice[setting.name], next)) out[setting.name] = choice[setting.name];
  return out;
}

const DATA_FIELDS = {
  none: [], triplets: ["path", "test", "precision"], rows: ["path", "test", "columns", "standardize", "precision"],
  regression: ["path", "test", "response", "offset", "weights", "columns", "intercept", "standardize", "missing", "missing_values", "decimal", "comment", "precision"],
};

export const takes = (model, field) => !model || (DATA_FIELDS[model.data] ?? DATA_FIELDS.regression).includes(field);

const without = (doc, ...keys) => Object.fromEntries(Object.entries(doc).filter(([key]) => !keys.includes(key)));

// Settings that the new model or sampler also has are kept; fields that refer to parameters are dropped.
export function withModel(doc, next) {
  let out = { ...without(doc, "save", "init", "reference"), model: next.parameters ? carriedOver({}, next) : next };
  if (Array.isArray(getAt(doc, "/sampler/step_size"))) out = setAt(out, "/sampler/step_size", undefined);
  if (!takes(next, "response")) out = without(out, "formula", "prior");
  if (!takes(next, "path")) return without(out, "data", "gradient", "batch_size", "replacement", "metric_every");
  for (const field of Object.keys(out.data ?? {})) if (!takes(next, field)) out = setAt(out, pointerTo("data", field), undefined);
  return out;
}

export function withSampler(doc, next) {
  const out = { ...doc, sampler: carriedOver(doc.sampler, next) };
  return next.exact ? without(out, "gradient", "batch_size", "replacement") : out;
}

// ---- a copy of an existing job ----

// The defaults of the fields as a document, from the items of GET /v1/fields. A default that depends on other
// fields is null there, and absent here.
export const defaultsOf = (fields) => fields.reduce((doc, { pointer, default: value }) => (value === null || value === undefined ? doc : setAt(doc, pointer, value)), {});

const empty = (x) => x === null || (typeof x === "object" && Object.keys(x).length === 0);
const lean = (object, defaults = {}) => Object.fromEntries(Object.entries(object).filter(([key, value]) => !empty(value) && !same(value, defaults[key])));

// null means no limit, which differs from the default.
const leanTarget = (target, defaults = {}) => Object.fromEntries(Object.entries(target).filter(([key, value]) => !same(value, defaults[key] ?? null)));

// Whether the daemon makes a plan, which chooses the start of the chains.
const isAutomatic = (doc) => {
  const step = getAt(doc, "/sampler/step_size");
  return stepKind(step) === "auto" && step?.fraction === undefined;
};

// What the daemon takes without a sampler, described like the others.
export const AUTO_SAMPLER = { name: "auto", help: "an exact sampler if it is expected to meet the target in time, otherwise sgbd", exact: false, schedule: false, parameters: [] };

// Sets the named settings back to automatic.
export function withAuto(doc, names) {
  const settings = names.filter((name) => name !== "sampler");
  const first = settings.length < names.length ? { ...doc, sampler: { name: AUTO_SAMPLER.name } } : doc;
  return settings.reduce((out, name) => setAt(out, settingPointer(name), undefined), first);
}

const settingsOf = (entry) => Object.fromEntries((entry?.parameters ?? []).map((s) => [s.name, s.default]));

// A resolved request without the values that equal the defaults. Values whose default depends on other fields
// (gradient, batch_size, warmup, …) stay, and so does the seed: the copy is the same job.
export function fromRequest(request, models, samplers, defaults) {
  const model = models.find((m) => m.name === nameOf(request.model));
  const sampler = samplers.find((s) => s.name === nameOf(request.sampler));
  const doc = lean(request, defaults);
  if (isObject(doc.model)) doc.model = lean(doc.model, settingsOf(model));
  if (isObject(doc.sampler)) doc.sampler = lean(doc.sampler, settingsOf(sampler));
  for (const key of ["data", "gradient", "stop_when"]) if (isObject(doc[key])) doc[key] = lean(doc[key], defaults[key]);
  if (isObject(doc.target)) doc.target = leanTarget(doc.target, defaults.target);
  if (!isAutomatic(doc) && same(doc.init, { kind: model?.default_init })) delete doc.init;
  if (!Array.isArray(doc.save?.params)) delete doc.save;
  if (sampler?.exact || model?.data === "none") delete doc.batch_size;
  if (sampler?.exact) delete doc.gradient;
  if (!request.data?.test) delete doc.metric_every;
  return Object.fromEntries(Object.entries(doc).filter(([, value]) => !empty(value)));
}

export function firstDocument(models, samplers) {
  return { model: { name: models[0]?.name }, sampler: { name: samplers[0]?.name } };
}

// ---- errors ----

// The errors of the field at `pointer`, including those of values inside it.
export function errorsAt(errors, pointer, inside = true) {
  return errors.filter((e) => e.pointer === pointer || (inside && e.pointer.startsWith(pointer + "/")));
}

// Whether the error is a value not entered yet, as opposed to a wrong one.
export function isMissing(doc, { pointer, kind }) {
  const value = getAt(doc, pointer);
  return value === undefined ? kind === "required" : value === "" || (Array.isArray(value) && value.length === 0);
}

// ---- as text ----

// Formatted JSON: one field per line, short lists on one line.
export function pretty(value, indent = "") {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const deeper = indent + "  ";
  if (Array.isArray(value)) {
    const items = value.map((item) => pretty(item, deeper));
    const flat = items.join(", ");
    if (value.every((item) => typeof item !== "object" || item === null)) return `[${flat.length < 60 ? flat : fold(items, deeper) + "\n" + indent}]`;
    return `[\n${items.map((item) => deeper + item).join(",\n")}\n${indent}]`;
  }
  const fields = Object.entries(value).filter(([, v]) => v !== undefined).map(([key, v]) => `${deeper}${JSON.stringify(key)}: ${pretty(v, deeper)}`);
  return fields.length ? `{\n${fields.join(",\n")}\n${indent}}` : "{}";
}

function fold(items, indent) {
  let out = "", width = 0;
  items.forEach((item, i) => {
    const text = item + (i < items.length - 1 ? "," : "");
    const fits = width > 0 && width + text.length < 56;
    out += fits ? " " + text : "\n" + indent + text;
    width = fits ? width + text.length + 1 : text.length;
  });
  return out;
}
