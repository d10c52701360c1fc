import assert from "node:assert/strict";
import { AUTO_SAMPLER, boundsOf, defaultsOf, firstDocument, fromRequest, getAt, isMissing, errorsAt, pretty, readLines, readNames, readNumber, readNumbers, readOneOrMore, readWords, withAuto, setAt, showText, showWords, stepAs, stepKind, takes, withModel, withSampler } from "../../clients/web/src/pages/new/document.js";
import { makeForm } from "../../clients/web/src/pages/new/form.js";
import { joinWords, planningNow, oneInText, settingName } from "../../clients/web/src/settingnames.js";
import { readJson } from "../../clients/web/src/pages/new/jsonreader.js";
import { SNIPPETS } from "../../clients/web/src/pages/new/snippets.js";
import { uploadName } from "../../clients/web/src/pages/new/upload.js";
import { endOf } from "../../clients/web/src/pages/server/tokenstate.js";

const MODELS = [
  { name: "logistic", data: "regression", default_init: "zero", metrics: ["log_loss"], parameters: [{ name: "prior_sd", kind: "number", default: 1 }] },
  { name: "ica", data: "rows", default_init: "zero", metrics: [], parameters: [{ name: "prior_sd", kind: "number", default: 1 }] },
  { name: "mf", data: "triplets", default_init: "prior", metrics: [], parameters: [{ name: "rank", kind: "integer", default: 20 }] },
  { name: "toy", data: "none", default_init: "zero", metrics: [], parameters: [] },
];
const SAMPLERS = [
  { name: "sgbd", exact: false, schedule: true, parameters: [{ name: "variant", kind: "choice", default: "vanilla", choices: ["vanilla", "corrected", "extreme"] }, { name: "step_size", kind: "step_size", default: "auto" }, { name: "beta", kind: "number", default: 0.1 }] },
  { name: "sgld", exact: false, schedule: true, parameters: [{ name: "variant", kind: "choice", default: "vanilla", choices: ["vanilla", "modified"] }, { name: "step_size", kind: "step_size", default: "auto" }, { name: "beta", kind: "number", default: 0.1 }] },
  { name: "mala", exact: true, schedule: false, parameters: [{ name: "step_size", kind: "step_size", default: "auto" }] },
];
// As in GET /v1/fields.
const FIELDS = [
  { pointer: "/name", kind: "text", default: null, max_length: 200 }, { pointer: "/note", kind: "text", default: "" }, { pointer: "/tags", kind: "strings" },
  { pointer: "/data", kind: "object" }, { pointer: "/data/response", kind: "text", default: "y" }, { pointer: "/data/intercept", kind: "boolean", default: false }, { pointer: "/data/standardize", kind: "boolean", default: false },
  { pointer: "/data/precision", kind: "choice", default: "auto" }, { pointer: "/gradient/estimator", kind: "choice", default: null }, { pointer: "/gradient/centre", kind: "choice", default: "mode" }, { pointer: "/gradient/one_in", kind: "integer" },
  { pointer: "/replacement", kind: "boolean", default: false }, { pointer: "/thin", kind: "integer", default: null }, { pointer: "/target/sd_error", kind: "number", default: 0.02 }, { pointer: "/target/mean_error", kind: "number", default: 0.02 },
  { pointer: "/target/ess", kind: "number", default: null }, { pointer: "/target/seconds", kind: "number", default: 60 }, { pointer: "/check_draws", kind: "integer", default: 400 }, { pointer: "/priority", kind: "integer", default: 0 },
  { pointer: "/visibility", kind: "choice", default: "private" },
];
const DEFAULTS = defaultsOf(FIELDS);
const model = (name) => MODELS.find((m) => m.name === name);
const sampler = (name) => SAMPLERS.find((s) => s.name === name);

// The resolved request of a job with few given settings.
const RESOLVED = {
  name: "logistic, sgbd corrected", note: "", tags: [], model: { name: "logistic", prior_sd: 1 },
  data: { path: "a.csv", test: null, response: "y", columns: null, intercept: false, standardize: true, precision: "auto" },
  sampler: { name: "sgbd", variant: "corrected", step_size: "auto", beta: 0.1 }, batch_size: 881, replacement: false, iterations: 20000, warmup: 5000,
  thin: 1, chains: 4, seed: 123, init: { kind: "zero" }, save: { params: null }, metric_every: 100, reference: null, check_draws: 400,
  stop_when: { rhat: 1.01, ess: null, seconds: null }, priority: 0, visibility: "private",
};

const form = (doc, errors = [], more = {}) => makeForm({ doc, change: () => {}, errors, tried: false, resolved: null, estimate: null, ...more });

export default {
  "a field writes one place of the document and leaves the rest": () => {
    const doc = { model: "logistic", extra: { mine: 1 } };
    const next = setAt(setAt(doc, "/sampler/step_size", 0.01), "/data/path", "a.csv");
    assert.deepEqual(next, { model: "logistic", data: { path: "a.csv" }, sampler: { step_size: 0.01 }, extra: { mine: 1 } });
    assert.deepEqual(Object.keys(next), ["model", "data", "sampler", "extra"], "in the usual order of fields");
    assert.deepEqual(doc, { model: "logistic", extra: { mine: 1 } }, "the original is unchanged");
  },
  "removing a value removes its parent if that becomes empty": () => {
    assert.deepEqual(setAt({ a: 1, stop_when: { rhat: 1.01 } }, "/stop_when/rhat", undefined), { a: 1 });
    assert.deepEqual(setAt({ stop_when: { rhat: 1.01, ess: 400 } }, "/stop_when/rhat", undefined), { stop_when: { ess: 400 } });
    assert.deepEqual(setAt({}, "/stop_when/rhat", undefined), {});
    assert.deepEqual(setAt({ save: { params: ["a"] } }, "/save/params", []), { save: { params: [] } }, "an empty list is kept: it differs from an absent one");
  },
  "a model given as a name becomes an object when it gets a setting": () => {
    assert.equal(getAt({ model: "logistic" }, "/model/name"), "logistic");
    assert.equal(getAt({ model: "logistic" }, "/model/length"), undefined);
    assert.deepEqual(setAt({ model: "logistic" }, "/model/prior_sd", 2), { model: { name: "logistic", prior_sd: 2 } });
  },
  "null counts as absent, and properties of Object.prototype are not fields": () => {
    assert.equal(getAt({ data: null }, "/data/path"), undefined);
    assert.equal(getAt({ reference: null }, "/reference"), undefined);
    assert.equal(getAt({ data: {} }, "/data/constructor"), undefined);
    assert.equal(getAt({ "a/b": { "~": 3 } }, "/a~1b/~0"), 3);
  },
  "common notations of numbers are read; other text stays text": () => {
    const rows = [["", undefined], ["  ", undefined], ["12", 12], ["1e5", 100000], ["200 000", 200000], ["52\u202f580", 52580], [".5", 0.5], ["-0.25", -0.25], ["−3", -3], ["1e", "1e"], ["0x10", "0x10"], ["1,5", "1,5"], ["NaN", "NaN"], ["1e999", "1e999"], ["Infinity", "Infinity"]];
    for (const [text, value] of rows) assert.equal(readNumber(text), value, JSON.stringify(text));
  },
  "lists survive being shown and read again": () => {
    assert.deepEqual(readNumbers("0.01, .2;3\n x"), [0.01, 0.2, 3, "x"]);
    assert.deepEqual(readNames("theta[1], U[3,7]\nW[2,5],"), ["theta[1]", "U[3,7]", "W[2,5]"]);
    assert.deepEqual(readNames(showWords(["theta[1]", "U[3,7]"])), ["theta[1]", "U[3,7]"]);
    assert.deepEqual(readNumbers(showWords([0.01, 2e-9])), [0.01, 2e-9]);
    assert.deepEqual(readWords(" a, b ,,"), ["a", "b"]);
    assert.equal(readWords(" , "), undefined);
    assert.deepEqual(readLines("age, in years\n\n dose "), ["age, in years", "dose"], "column names may contain commas");
    assert.equal(showText({ a: [1] }), '{"a":[1]}');
  },
  "a setting that may be a list is one number or several": () => {
    const rows = [["", undefined], ["2", 2], ["1, 2", [1, 2]], ["1 2.5", [1, 2.5]], ["1,", [1]], ["x", "x"], ["1, x", [1, "x"]]];
    for (const [text, value] of rows) assert.deepEqual(readOneOrMore(text), value, JSON.stringify(text));
  },
  "the text of bounds": () => {
    const rows = [[{}, ""], [{ exclusive_minimum: 0, maximum: 1 }, "> 0 and ≤ 1"], [{ minimum: 1, maximum: 500 }, "≥ 1 and ≤ 500"], [{ minimum: 0 }, "≥ 0"], [{ maximum: 2 }, "≤ 2"]];
    for (const [setting, want] of rows) assert.equal(boundsOf(setting), want);
  },
  "tokens end when they are revoked or expire": () => {
    const now = Date.parse("2026-11-16T12:00:00Z");
    const rows = [[null, null, ""], [null, "2026-11-16T12:00:01Z", ""], [null, "2026-11-16T12:00:00Z", "expired"], ["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "revoked"]];
    for (const [revoked_at, expires_at, want] of rows) assert.equal(endOf({ revoked_at, expires_at }, now), want);
  },
  "every kind of step size is recognised": () => {
    const rows = [[undefined, "auto"], ["auto", "auto"], [{ kind: "auto", fraction: 0.3 }, "auto"], [0.1, "number"], ["", "number"], ["0.1x", "number"], [{ kind: "constant", value: 2 }, "number"], [{ kind: "constant", value: [2] }, "list"], [[0.1], "list"], [[], "list"], [{ value: 1 }, "schedule"], [{ kind: "schedule" }, "schedule"]];
    for (const [value, kind] of rows) assert.equal(stepKind(value), kind, JSON.stringify(value));
  },
  "changing the kind of step size keeps its number": () => {
    const rows = [[undefined, "number", ""], [0.1, "list", [0.1]], [0.1, "schedule", { kind: "schedule", value: 0.1 }], [{ kind: "schedule", value: [1, 2], t0: 5 }, "list", [1, 2]], [[3, 4], "number", 3], [0.1, "auto", undefined], [undefined, "schedule", { kind: "schedule" }]];
    for (const [value, kind, want] of rows) {
      assert.deepEqual(stepAs(value, kind), want, `${JSON.stringify(value)} as ${kind}`);
      assert.equal(stepKind(stepAs(value, kind)), kind);
    }
  },
  "changing the model keeps only the fields that apply": () => {
    const doc = { name: "x", model: { name: "logistic", prior_sd: 3 }, data: { path: "a.csv", response: "z", columns: ["a"], intercept: true, standardize: true }, sampler: { name: "sgbd", step_size: [1, 2] }, batch_size: 10, save: { params: ["theta[1]"] }, chains: 2 };
    assert.deepEqual(withModel(doc, model("ica")).data, { path: "a.csv", columns: ["a"], standardize: true });
    assert.deepEqual(withModel(doc, model("mf")).data, { path: "a.csv" });
    const toy = withModel(doc, model("toy"));
    assert.deepEqual(toy, { name: "x", model: { name: "toy" }, sampler: { name: "sgbd" }, chains: 2 });
    assert.ok(takes(model("logistic"), "response") && !takes(model("ica"), "response") && !takes(model("toy"), "path"));
  },
  "changing the sampler keeps the settings that both have": () => {
    const doc = { sampler: { name: "sgbd", variant: "corrected", step_size: { kind: "schedule", value: 1 }, beta: 0.2 }, batch_size: 100, replacement: true };
    assert.deepEqual(withSampler(doc, sampler("sgld")), { sampler: { name: "sgld", step_size: { kind: "schedule", value: 1 }, beta: 0.2 }, batch_size: 100, replacement: true });
    assert.deepEqual(withSampler(doc, sampler("mala")), { sampler: { name: "mala" } });
    assert.deepEqual(withSampler({ ...doc, gradient: { estimator: "control_variate" }, precondition: "dense" }, sampler("mala")), { sampler: { name: "mala" }, precondition: "dense" });
    assert.deepEqual(withSampler({ sampler: { name: "sgbd", step_size: 0.1 } }, sampler("mala")), { sampler: { name: "mala", step_size: 0.1 } });
  },
  "a clone contains the values that are not defaults, and the seed": () => {
    assert.deepEqual(fromRequest(RESOLVED, MODELS, SAMPLERS, DEFAULTS), {
      name: "logistic, sgbd corrected", model: { name: "logistic" }, data: { path: "a.csv", standardize: true }, sampler: { name: "sgbd", variant: "corrected" },
      batch_size: 881, iterations: 20000, warmup: 5000, thin: 1, chains: 4, seed: 123, init: { kind: "zero" }, stop_when: { rhat: 1.01 },
    });
    assert.deepEqual(fromRequest({ ...RESOLVED, save: { params: [] }, init: { kind: "map", steps: 9 }, visibility: "lab" }, MODELS, SAMPLERS, DEFAULTS).save, { params: [] });
    assert.equal(fromRequest({ ...RESOLVED, data: { ...RESOLVED.data, test: "b.csv" } }, MODELS, SAMPLERS, DEFAULTS).metric_every, 100, "its default depends on the data");
    assert.equal(fromRequest({ ...RESOLVED, model: { name: "gone", z: 1 } }, MODELS, SAMPLERS, DEFAULTS).model.z, 1, "a model that is not known any more is copied as it was");
  },
  "a clone of a planned job has the chosen values, and can reset them to automatic": () => {
    const planned = { ...RESOLVED, sampler: { ...RESOLVED.sampler, step_size: 0.87 }, gradient: { estimator: "control_variate", centre: "mode", one_in: 16 }, precondition: "dense", init: { kind: "auto" }, target: { sd_error: 0.02, mean_error: 0.01, ess: null, seconds: 60 } };
    const doc = fromRequest(planned, MODELS, SAMPLERS, DEFAULTS);
    assert.deepEqual([doc.gradient, doc.precondition, doc.sampler.step_size, doc.init, doc.target], [{ estimator: "control_variate", one_in: 16 }, "dense", 0.87, { kind: "auto" }, { mean_error: 0.01 }]);
    const open = withAuto(doc, ["step_size", "gradient.estimator", "gradient.one_in", "precondition", "batch_size", "iterations", "warmup", "thin", "init"]);
    assert.deepEqual(open, { name: doc.name, model: doc.model, data: doc.data, sampler: { name: "sgbd", variant: "corrected" }, chains: 4, target: { mean_error: 0.01 }, seed: 123, stop_when: doc.stop_when });
  },
  "a clone of a job whose sampler was chosen can leave it open again": () => {
    const exact = fromRequest({ ...RESOLVED, sampler: { name: "mala", step_size: "auto" }, gradient: { estimator: "plain", centre: "mode", one_in: 1 }, precondition: "dense", init: { kind: "auto" } }, MODELS, SAMPLERS, DEFAULTS);
    assert.deepEqual([exact.sampler, exact.gradient, exact.precondition, exact.thin], [{ name: "mala" }, undefined, "dense", 1]);
    assert.deepEqual(withAuto(exact, ["sampler", "step_size", "variant", "precondition"]).sampler, { name: "auto" });
    assert.deepEqual(withSampler({ sampler: { name: "sgbd", variant: "corrected", step_size: 0.1 } }, AUTO_SAMPLER), { sampler: { name: "auto" } });
  },
  "a clone keeps values whose default depends on other fields": () => {
    const plain = { ...RESOLVED, gradient: { estimator: "plain", centre: "mode", one_in: 1 }, precondition: "none", target: { sd_error: 0.02, mean_error: 0.02, ess: null, seconds: 60 } };
    const withStep = (step_size) => fromRequest({ ...plain, sampler: { ...plain.sampler, step_size } }, MODELS, SAMPLERS, DEFAULTS);
    for (const step of ["auto", { kind: "auto" }, 0.1, [0.1, 0.2], { kind: "schedule", value: 1 }, { kind: "auto", fraction: 0.3 }]) {
      const doc = withStep(step);
      assert.deepEqual([doc.gradient, doc.precondition, doc.thin, "target" in doc], [{ estimator: "plain", one_in: 1 }, "none", 1, false], JSON.stringify(step));
    }
    assert.deepEqual([withStep(0.1).init, withStep("auto").init], [undefined, { kind: "zero" }], "the model's own start is the default unless there is a plan");
    assert.deepEqual(fromRequest({ ...plain, target: { ...plain.target, seconds: null } }, MODELS, SAMPLERS, DEFAULTS).target, { seconds: null }, "no limit is not the default");
  },
  "defaults are those of the daemon": () => {
    const other = FIELDS.map((f) => ({ ...f, ...{ "/check_draws": { default: 250 }, "/data/response": { default: "z" }, "/target/seconds": { default: null }, "/visibility": { default: "lab" } }[f.pointer] }));
    const doc = fromRequest({ ...RESOLVED, target: { sd_error: 0.02, mean_error: 0.02, ess: null, seconds: null } }, MODELS, SAMPLERS, defaultsOf(other));
    assert.deepEqual([doc.check_draws, doc.data.response, doc.visibility, doc.target], [400, "y", "private", undefined]);
    const empty = form({}, [], { fields: other });
    assert.deepEqual([empty.defaultOf("/visibility"), empty.defaultOf("/thin"), empty.defaultOf("/none"), empty.field("/name").max_length], ["lab", undefined, undefined, 200]);
    assert.deepEqual(["/check_draws", "/priority", "/data/response", "/thin"].map(empty.fallback), ["250", "0", "z", ""], "placeholders before the daemon has checked the job");
    assert.equal(form({}, [], { fields: other, resolved: { check_draws: 7 } }).fallback("/check_draws"), "7", "what the daemon resolved comes first");
    assert.equal(form({}, [], { fields: FIELDS, resolved: { target: { seconds: null } } }).fallback("/target/seconds"), "60", "the job was checked without a limit, which has been removed since");
  },
  "display names of automatic settings": () => {
    assert.equal(joinWords([]), "");
    assert.equal(joinWords(["a"]), "a");
    assert.equal(joinWords(["a", "b", "c"]), "a, b and c");
    assert.equal(settingName("gradient.estimator"), "gradient");
    assert.equal(oneInText({ one_in: 16 }), "in 1 of 16 iterations");
    for (const gradient of [undefined, {}, { one_in: 1 }, { one_in: "auto" }]) assert.equal(oneInText(gradient), "");
    assert.equal(settingName("something"), "something");
    const at = (phase, reason) => planningNow({ phase, reason });
    assert.equal(at("planning", "the mode, step 7"), "the mode, step 7");
    assert.equal(at("sampling", "running"), null);
    assert.equal(at(null, "paused by its owner"), null);
  },
  "the first document has a model and a sampler": () => assert.deepEqual(firstDocument(MODELS, SAMPLERS), { model: { name: "logistic" }, sampler: { name: "sgbd" } }),
  "errors belong to their field or to its parent": () => {
    const errors = [{ pointer: "/sampler/step_size/2", detail: "a" }, { pointer: "/sampler", detail: "b" }, { pointer: "/iterations", detail: "c" }];
    assert.deepEqual(errorsAt(errors, "/sampler/step_size").map((e) => e.detail), ["a"]);
    assert.deepEqual(errorsAt(errors, "/sampler", false).map((e) => e.detail), ["b"]);
    assert.deepEqual(errorsAt(errors, "/iter"), []);
    const f = form({ sampler: { step_size: [1, 2, "x"] } }, errors);
    assert.equal(f.problem("/sampler/step_size"), "item 3: a");
    assert.equal(f.problem("/chains"), null);
  },
  "missing values are not reported before the first attempt to submit": () => {
    const doc = { data: {}, sampler: { step_size: "" } };
    const error = { pointer: "/data/path", detail: "must be given: a file", kind: "required" };
    assert.ok(isMissing(doc, error) && isMissing(doc, { pointer: "/sampler/step_size", detail: "must be a number", kind: "type" }));
    assert.ok(!isMissing({ data: { path: "a" } }, { pointer: "/data/path", detail: "there is no data file", kind: "missing" }));
    assert.equal(form(doc, [error]).problem("/data/path"), null);
    assert.equal(form(doc, [error], { tried: true }).problem("/data/path"), "must be given: a file");
    assert.ok(!isMissing(doc, { ...error, kind: "conflict" }), "by its kind, not by its words");
  },
  "resolved defaults are shown in empty fields": () => {
    const f = form({}, [], { resolved: RESOLVED });
    assert.equal(f.fallback("/batch_size"), "881");
    assert.equal(f.fallback("/nothing"), "");
  },
  "formatted JSON has the same value": () => {
    const doc = { ...RESOLVED, list: Array.from({ length: 60 }, (_, i) => i / 7), deep: [{ a: [1] }], none: {}, empty: [] };
    assert.deepEqual(JSON.parse(pretty(doc)), doc);
    assert.match(pretty({ tags: ["a", "b"] }), /"tags": \["a", "b"\]/);
    assert.ok(pretty(doc).split("\n").every((line) => line.length < 100));
  },
  "valid JSON is read as JSON.parse reads it": () => {
    for (const text of ['{"a":[1,-2.5e-3,true,false,null,"\\u00e9\\n\\"x\\\\"]}', " [ ] ", '{"":{"a/b":1}}', "12", '"x"', '{"__proto__": 1}']) {
      const { value, error } = readJson(text);
      assert.equal(error, undefined, text);
      assert.equal(JSON.stringify(value), JSON.stringify(JSON.parse(text)));
    }
  },
  "invalid JSON is refused with a message, line and column": () => {
    const rows = [
      ["", 1, 1, /expected a value/], ['{\n  "a": 1\n  "b": 2\n}', 3, 3, /expected a comma or }/], ['{"a": 1,\n}', 1, 8, /after this comma/], ["[1, 2,]", 1, 6, /after this comma/],
      ["{'a': 1}", 1, 2, /name in double quotes/], ["{a: 1}", 1, 2, /names must be in double quotes/], ['{"a" 1}', 1, 6, /colon/], ['{"a": }', 1, 7, /expected a value/], ['{"a": True}', 1, 7, /True is not a JSON value/],
      ['{"a": .5}', 1, 7, /not a JSON number/], ['{"a": 01}', 1, 7, /not a JSON number/], ['{"a": 1.}', 1, 7, /not a JSON number/], ['{"a": "x\n"}', 1, 7, /no closing quote/], ['{"a": "\\x"}', 1, 7, /escape/], ['{"a": 1 // one\n}', 1, 9, /comments/],
      ['{"a": 1, "a": 2}', 1, 10, /duplicate/], ['{"a": [1\n', 2, 1, /the \[ of line 1 is not closed/], ['{"a": 1} x', 1, 10, /after the end/], ["[".repeat(300), 1, 102, /deeply/],
    ];
    for (const [text, line, column, words] of rows) {
      const { error } = readJson(text);
      assert.ok(error, text);
      assert.match(error.message, words, text);
      assert.deepEqual([error.line, error.column], [line, column], text);
    }
  },
  "exactly the texts that JSON.parse refuses are refused": () => {
    const good = pretty(RESOLVED);
    const refused = (text) => {
      try {
        return JSON.parse(text) === undefined;
      } catch {
        return true;
      }
    };
    for (let i = 0; i < good.length; i++) {
      for (const text of [good.slice(0, i), good.slice(0, i) + good.slice(i + 1), good.slice(0, i) + "," + good.slice(i), good.slice(0, i) + '"' + good.slice(i)]) {
        const { error } = readJson(text);
        assert.equal(error !== undefined && !error.message.startsWith("duplicate"), refused(text), text);
      }
    }
  },
  "the position of a value in the text is found by its pointer": () => {
    const text = '{\n  "sampler": {"step_size": [1, 0.25]},\n  "a/b": 3\n}';
    const { at } = readJson(text);
    const cut = (pointer) => text.slice(...at.get(pointer));
    assert.equal(cut("/sampler/step_size/1"), "0.25");
    assert.equal(cut("/sampler/step_size"), "[1, 0.25]");
    assert.equal(cut("/a~1b"), "3");
  },
  "nothing in a job reaches the shell": () => {
    const json = pretty({ name: "$(rm -rf /)`x`'\nEOF\n" });
    for (const { text } of Object.values(SNIPPETS)) {
      const lines = text(json, "http://h:1").split("\n");
      assert.equal(lines.filter((line) => line === "EOF").length, 1);
      assert.equal(lines[lines.length - 1], "EOF");
      assert.ok(lines.some((line) => line.endsWith("<<'EOF'")));
      assert.doesNotMatch(lines.join(), /bk_[0-9A-Za-z]/);
    }
  },
  "uploads get names that the daemon accepts": () => {
    const rows = [["Sepsis data (1).csv", "Sepsis_data_1_.csv"], ["été.csv", "ete.csv"], ["../../.ssh/x", "ssh_x"], [".hidden", "hidden"], ["数据.csv", "csv"], ["", "data"], ["a".repeat(200) + ".csv", "a".repeat(124) + ".csv"]];
    for (const [name, want] of rows) {
      assert.equal(uploadName(name), want, name);
      assert.match(uploadName(name), /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$/);
    }
  },
};
