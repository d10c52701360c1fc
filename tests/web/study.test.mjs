// The arithmetic of the pages of studies.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as r from "../../clients/web/src/pages/study/rows.js";
import { roundsOf } from "../../clients/web/src/pages/study/rounds.js";
import { barOf, reachOf } from "../../clients/web/src/plottrail.js";

const row = (index, setting, measures = {}) => ({
  index, group: 0, setting, measures: Object.fromEntries(Object.entries(measures).map(([name, [value, error = null]]) => [name, { value, error }])),
});

const job = { sampler: "sgbd", iterations: 2000 };
const rows = [
  row(0, { "/sampler/variant": "vanilla", "/sampler/step_size": 0.4 }, { ess_min: [398.1, 3], bias: [0.07, 0.002] }),
  row(1, { "/sampler/variant": "vanilla", "/sampler/step_size": 0.1 }, { ess_min: [577.8, 42], bias: [0.043, 0.03] }),
  row(2, { "/sampler/variant": "vanilla", "/sampler/step_size": 0.2, "/sampler/name": "sgld" }, { ess_min: [12.5], bias: [0, 0] }),
  row(3, { "/sampler/variant": "corrected", "/sampler/step_size": 0.1 }, { ess_min: [null] }),
];
const indices = (list) => list.map(({ index }) => index);

export default {
  "a setting that a group leaves out is that of the job": () => {
    assert.equal(r.valueOf(rows[0], "/sampler/name", job), "sgbd");
    assert.equal(r.valueOf(rows[2], "/sampler/name", job), "sgld");
    assert.equal(r.valueOf(rows[0], "/batch_size", job), null);
    assert.deepEqual(r.sweptOf(rows, job).map((s) => [s.pointer, s.values, s.numeric]), [
      ["/sampler/variant", ["vanilla", "corrected"], false], ["/sampler/step_size", [0.4, 0.1, 0.2], true], ["/sampler/name", ["sgbd", "sgld"], false],
    ]);
    assert.deepEqual(r.sweptOf([rows[0]], job).map((s) => s.pointer), ["/sampler/variant", "/sampler/step_size"], "all, if nothing differs");
  },
  "curves run along the step size, or else along the number with the most values": () => {
    const of = (...list) => r.axisOf(list.map(([pointer, count, numeric = true]) => ({ pointer, values: new Array(count), numeric })));
    assert.equal(of(["/seed", 9], ["/sampler/step_size", 2]), "/sampler/step_size");
    assert.equal(of(["/chains", 2], ["/batch_size", 3], ["/sampler/name", 6, false]), "/batch_size");
    assert.equal(of(["/sampler/name", 6, false]), null);
  },
  "a curve is the rows that differ in the axis only, in its order": () => {
    const curves = r.curvesOf(rows, r.sweptOf(rows, job), "/sampler/step_size", job);
    assert.deepEqual(curves.map((c) => [c.label, indices(c.rows)]), [["vanilla, sgbd", [1, 0]], ["vanilla, sgld", [2]], ["corrected, sgbd", [3]]]);
    assert.deepEqual(r.curvesOf(rows.slice(0, 2), r.sweptOf(rows.slice(0, 2), job), "/sampler/step_size", job).map((c) => c.label), ["all settings"]);
  },
  "a setting in words: numbers have their names": () => {
    assert.equal(r.settingText(rows[2], r.sweptOf(rows, job), job), "vanilla, step size 0.2, sgld");
  },
  "the points of a curve have both numbers, and are above 0 on logarithmic axes": () => {
    const curve = { label: "all", rows };
    const linear = r.seriesOf(curve, "bias", "ess_min", { job });
    assert.deepEqual([linear.x, linear.y], [[0.07, 0.043, 0], [398.1, 577.8, 12.5]]);
    assert.deepEqual(linear.trail, { xError: [0.002, 0.03, 0], yError: [3, 42, null] });
    assert.deepEqual(r.seriesOf(curve, "bias", "ess_min", { job, logX: true }).x, [0.07, 0.043]);
    assert.deepEqual(r.seriesOf(curve, "/sampler/step_size", "ess_min", { job }).x, [0.4, 0.1, 0.2]);
  },
  "an error bar is two standard errors to both sides, and open where it reaches 0 on a logarithmic axis": () => {
    assert.deepEqual(barOf(5, 1.25, false), [2.5, 7.5]);
    assert.deepEqual(barOf(5, 3, false), [-1, 11]);
    assert.deepEqual(barOf(5, 3, true), [-Infinity, 11]);
    assert.deepEqual(barOf(5, 2.5, true), [-Infinity, 10]);
    for (const none of [null, undefined, 0, NaN]) assert.equal(barOf(5, none, false), null);
    assert.deepEqual(reachOf([{ y: [5, 8, 100], trail: { yError: [3, null, 48] } }], true), [11, 196]);
    assert.deepEqual(reachOf([{ y: [5, 8], trail: { yError: [3, 1] } }], false), [-1, 11, 6, 10]);
  },
  "an axis is logarithmic where numbers are positive and far apart": () => {
    assert.equal(r.suitsLog([0.1, 0.4]), true);
    assert.equal(r.suitsLog([0.2, 0.4]), false);
    assert.equal(r.suitsLog([0, 0.1, 0.4]), false);
    assert.equal(r.suitsLog([0, ...new Array(9).fill(1), 5]), true, "one that cannot be shown does not decide");
    assert.equal(r.suitsLog([-1, -5]), false);
    assert.equal(r.suitsLog([]), false);
  },
  "parallel coordinates: numbers by size, words side by side": () => {
    const log = r.scaleOf([0.01, null, 1, 100]);
    assert.deepEqual([0.01, 1, 100, null].map(log.at).map((x) => x && Math.round(x * 1e6) / 1e6), [0, 0.5, 1, null]);
    assert.deepEqual([log.log, log.ends, log.names], [true, [0.01, 100], null]);
    const linear = r.scaleOf([10, 15, 20]);
    assert.deepEqual([linear.log, linear.at(15)], [false, 0.5]);
    assert.equal(r.scaleOf([7, 7]).at(7), 0.5);
    const words = r.scaleOf(["sgbd", "sgld", "sgbd", "nuts"]);
    assert.deepEqual(["sgbd", "sgld", "nuts", null].map(words.at), [0, 0.5, 1, null]);
    assert.deepEqual(r.scaleOf(["x", { to: 1 }]).names, ["x", '{"to":1}']);
  },
  "rows are sorted by any column; without a value they come last": () => {
    assert.deepEqual(indices(r.sortedBy(rows, "ess_min", false, job)), [2, 0, 1, 3]);
    assert.deepEqual(indices(r.sortedBy(rows, "ess_min", true, job)), [1, 0, 2, 3]);
    assert.deepEqual(indices(r.sortedBy(rows, "/sampler/step_size", true, job)), [0, 2, 1, 3]);
    assert.deepEqual(indices(r.sortedBy(rows, "/sampler/variant", false, job)), [3, 0, 1, 2]);
    assert.deepEqual(indices(r.sortedBy(rows, "index", true, job)), [3, 2, 1, 0]);
  },
  "the best row is that of the daemon, the worst is sought among those that keep the bounds": () => {
    const best = { by: "ess_min", index: 1, rivals: [0] };
    assert.deepEqual([...r.marksOf(rows, { maximize: "ess_min" }, best)], [[2, "worst"], [0, "rival"], [1, "best"]]);
    assert.deepEqual([...r.marksOf(rows, { maximize: "ess_min", at_least: { bias: 0.01 } }, best)], [[0, "rival"], [1, "best"]], "a rival is never called the worst");
    assert.deepEqual([...r.marksOf(rows, { minimize: "bias", at_most: { bias: 0.06 } }, { by: "bias", index: 2, rivals: [] })], [[1, "worst"], [2, "best"]]);
    assert.equal(r.marksOf(rows, null, null).size, 0);
  },
  "the words of columns": () => {
    assert.deepEqual(["/sampler/step_size", "/sampler/name", "ess_min", "log_loss_ergodic", "rmse_draw", "other"].map(r.columnLabel), ["step size", "sampler", "smallest ESS", "log loss (ergodic)", "rmse (per draw)", "other"]);
    const answer = JSON.parse(readFileSync(new URL("../fixtures/studies/sweep_answer.json", import.meta.url)));
    for (const name of answer.result.columns) assert.ok(name === "draws" || name === "iterations" || name === "gradients" || r.columnLabel(name) !== name, name);
  },
  "mamba: one series per round, by step size, without arms that have no score": () => {
    const { arms } = JSON.parse(readFileSync(new URL("../fixtures/studies/mamba_answer.json", import.meta.url))).result;
    arms[0].scores[0].fssd = null;
    const [one, two, ...more] = roundsOf([...arms].reverse(), "fssd");
    assert.deepEqual([one.label, one.x.length, two.label, more.length], ["round 1", 9, "round 2", 0]);
    assert.deepEqual([two.x, two.y, two.trail.yError], [[0.158322, 0.629961, 1.25661], [0.337612, 0.0327614, 0.0900508], [0.0280693, 0.0277565, 0.0221552]]);
  },
};
