// The job that is being written, as the document that POST /v1/jobs takes. The form has no state of
// its own beside it: fields read and write places in it (JSON pointers), so that form and JSON
// cannot come to differ, and what the form does not know about stays as it is.
import { splitNames } from "../../params.js";
import { settingPlace } from "../../planwords.js";

const isObject = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export const parts = (pointer) => pointer.split("/").slice(1).map((p) => p.replace(/~1/g, "/").replace(/~0/g, "~"));
export const pointerTo = (...keys) => keys.map((k) => "/" + String(k).replace(/~/g, "~0").replace(/\//g, "~1")).join("");

// undefined where there is nothing; null counts as nothing, as it does for the daemon.
export function getAt(doc, pointer) {
  let at = doc;
  for (const key of parts(pointer)) {
    const bare = typeof at === "string" && key === "name"; // "model": "logistic"
    if (!bare) at = typeof at === "object" && at !== null && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at === null ? undefined : at;
}

// The order in which people write a job; what is not among them comes last.
const ORDER = ["name", "note", "tags", "model", "data", "sampler", "gradient", "precondition", "batch_size", "replacement", "iterations", "warmup", "thin", "chains", "target", "seed"];
const placeOf = (key) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length);

export function ordered(doc) {
  return Object.fromEntries(Object.entries(doc).map((entry, i) => [entry, i]).sort(([[a], i], [[b], j]) => placeOf(a) - placeOf(b) || i - j).map(([entry]) => entry));
}

// A changed copy. undefined removes, and what becomes empty by that goes too. A model or sampler that
// was a mere name becomes an object when it gets a setting.
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

// ---- texts of fields ----

// "" is nothing; what is no number stays the text that it is, and the daemon says what is wrong with it.
export function readNumber(text) {
  const plain = text.replace(/[\s_\u202f]/g, "").replace(/^−/, "-");
  if (plain === "") return undefined;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) && Number.isFinite(Number(plain)) ? Number(plain) : text;
}

export const readText = (text) => (text === "" ? undefined : text);

// What a field that takes more than one type shows of a value.
export const showText = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : typeof value === "number" ? String(value) : JSON.stringify(value));

export const readWords = (text) => {
  const words = text.split(",").map((t) => t.trim()).filter(Boolean);
  return words.length ? words : undefined;
};
export const readLines = (text) => text.split("\n").map((t) => t.trim()).filter(Boolean);
export const readNames = (text) => splitNames(text.replace(/\n/g, ","));
export const readNumbers = (text) => text.split(/[\s,;]+/).filter(Boolean).map(readNumber);
// One number, or several for a list of them.
export function readOneOrMore(text) {
  const all = readNumbers(text);
  return all.length > 1 || /[,;]\s*$/.test(text) ? all : readNumber(text);
}

const list = (between) => (value) => (Array.isArray(value) ? value.map(showText).join(between) : showText(value));
export const showWords = list(", ");
export const showLines = list("\n");

// "over 0 and up to 1": the bounds of a setting.
export function boundsOf({ minimum, exclusive_minimum: over, maximum }) {
  const low = over !== undefined ? `over ${over}` : minimum !== undefined ? `from ${minimum}` : "";
  const high = maximum !== undefined ? `up to ${maximum}` : "";
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

// The same in another form, with as much of it as makes sense there.
export function stepAs(value, kind) {
  const sigma = isObject(value) ? value.value : value === "auto" ? undefined : value;
  const one = Array.isArray(sigma) ? sigma[0] : sigma;
  if (kind === "auto") return undefined;
  if (kind === "list") return Array.isArray(sigma) ? sigma : one === undefined ? [] : [one];
  if (kind === "schedule") return sigma === undefined ? { kind: "schedule" } : { kind: "schedule", value: sigma };
  return one === undefined ? "" : one;
}

// ---- what follows from choosing another model or sampler ----

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
  regression: ["path", "test", "response", "offset", "columns", "intercept", "standardize", "precision"],
};

export const takes = (model, field) => !model || (DATA_FIELDS[model.data] ?? DATA_FIELDS.regression).includes(field);

const without = (doc, ...keys) => Object.fromEntries(Object.entries(doc).filter(([key]) => !keys.includes(key)));

// Settings that the other one has too are kept; what speaks of parameters by name or number is not.
export function withModel(doc, next) {
  let out = { ...without(doc, "save", "init", "reference"), model: next.parameters ? carriedOver({}, next) : next };
  if (Array.isArray(getAt(doc, "/sampler/step_size"))) out = setAt(out, "/sampler/step_size", undefined);
  if (!takes(next, "path")) return without(out, "data", "gradient", "batch_size", "replacement", "metric_every");
  for (const field of Object.keys(out.data ?? {})) if (!takes(next, field)) out = setAt(out, pointerTo("data", field), undefined);
  return out;
}

export function withSampler(doc, next) {
  const out = { ...doc, sampler: carriedOver(doc.sampler, next) };
  return next.exact ? without(out, "gradient", "batch_size", "replacement") : out;
}

// ---- from a job that exists ----

const DEFAULTS = {
  note: "", tags: [], replacement: false, thin: 1, check_draws: 400, priority: 0, visibility: "private",
  data: { intercept: false, standardize: false, precision: "auto" },
  gradient: { centre: "mode" }, target: { sd_error: 0.02, mean_error: 0.02, ess: null, seconds: 60 },
};

const lean = (object, defaults) => Object.fromEntries(Object.entries(object).filter(([key, value]) => value !== null && !same(value, defaults[key])));
const empty = (x) => isObject(x) && Object.keys(x).length === 0;

// Where the step size is left to the daemon, so is everything else that is not given.
const leavesAll = (doc, sampler) => {
  const step = getAt(doc, "/sampler/step_size");
  return !sampler?.exact && stepKind(step) === "auto" && step?.fraction === undefined;
};

// A limit of null is none, which is not the default.
const leanTarget = (target) => Object.fromEntries(Object.entries(target).filter(([key, value]) => !same(value, DEFAULTS.target[key])));

// How often rows are looked at is chosen with the batch size, or else always.
const leanGradient = (gradient, batch) => lean(gradient, { ...DEFAULTS.gradient, one_in: batch === "auto" ? "auto" : 1 });

function dropChosen(doc, sampler) {
  if (isObject(doc.gradient)) doc.gradient = leanGradient(doc.gradient, doc.batch_size);
  if (isObject(doc.target)) doc.target = leanTarget(doc.target);
  if (!leavesAll(doc, sampler)) {
    if (same(doc.gradient, { estimator: "plain" })) delete doc.gradient;
    if (doc.precondition === "none") delete doc.precondition;
  }
  for (const key of ["gradient", "target"]) if (empty(doc[key])) delete doc[key];
}

// With what had been left to the daemon left to it again.
export const reopened = (doc, names) => names.reduce((out, name) => setAt(out, settingPlace(name), undefined), doc);

const defaultsOf = (entry) => Object.fromEntries((entry?.parameters ?? []).map((s) => [s.name, s.default]));

// A request with every default resolved, without those that would be the same again. What a default
// depends on other fields (warm-up, batch size, metric_every) stays, and so does the seed: the copy is the same job.
export function fromRequest(request, models, samplers) {
  const model = models.find((m) => m.name === nameOf(request.model));
  const sampler = samplers.find((s) => s.name === nameOf(request.sampler));
  const doc = lean(request, DEFAULTS);
  if (isObject(doc.model)) doc.model = lean(doc.model, defaultsOf(model));
  if (isObject(doc.sampler)) doc.sampler = lean(doc.sampler, defaultsOf(sampler));
  if (isObject(doc.data)) doc.data = lean(doc.data, DEFAULTS.data);
  if (isObject(doc.stop_when)) doc.stop_when = lean(doc.stop_when, {});
  if (same(doc.init, { kind: model?.default_init })) delete doc.init;
  if (!Array.isArray(doc.save?.params)) delete doc.save;
  if (sampler?.exact || model?.data === "none") delete doc.batch_size;
  if (!request.data?.test) delete doc.metric_every;
  dropChosen(doc, sampler);
  return doc;
}

export function firstDocument(models, samplers) {
  return { model: { name: models[0]?.name }, sampler: { name: samplers[0]?.name } };
}

// ---- mistakes ----

// What belongs to the field at `pointer`: said of it, or of something in it that has no field of its own.
export function mistakesAt(errors, pointer, inside = true) {
  return errors.filter((e) => e.pointer === pointer || (inside && e.pointer.startsWith(pointer + "/")));
}

// Not filled in yet, as opposed to wrong.
export function isMissing(doc, { pointer, detail }) {
  const value = getAt(doc, pointer);
  return value === undefined ? detail.startsWith("is required") : value === "" || (Array.isArray(value) && value.length === 0);
}

// ---- as text ----

// JSON for people: one field per line, but short lists of numbers and names on one.
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
