import assert from "node:assert/strict";
import * as f from "../../clients/web/src/format.js";

const table = (call, rows) => () => {
  for (const [args, want] of rows) assert.equal(call(...args), want, `${call.name}(${args.map(String).join(", ")})`);
};

export default {
  "counts are grouped from five digits on": table(f.count, [[[0], "0"], [[9999], "9999"], [[52580], "52\u202f580"], [[1234567], "1\u202f234\u202f567"], [[-12345], "−12\u202f345"], [[null], "–"]]),
  "numbers keep their significant digits and their sign": table(f.number, [
    [[2.385], "2.385"], [[-0.0251], "−0.02510"], [[0], "0"], [[12345.678], "12\u202f346"], [[3.1e-7], "3.100e−7"], [[8.25e9, 2], "8.3e9"], [[0.00012345, 2], "0.00012"],
  ]),
  "unknown values are never shown as a number": () => {
    for (const name of ["count", "number", "fixed", "rhat", "ess", "percent", "ratio", "duration", "bytes", "time", "ago"])
      for (const value of [null, undefined, NaN]) assert.equal(f[name](value), "–", name);
  },
  "axis labels are short and all different": () => {
    for (const [values, want] of [
      [[3500000, 3550000, 3600000], ["3.50e6", "3.55e6", "3.60e6"]],
      [[0, 1000000, 2000000], ["0", "1.0e6", "2.0e6"]],
      [[1050000, 1150000], ["1.05e6", "1.15e6"]],
      [[null, 10000.25, 10000.5], ["", "10000.25", "10000.5"]],
      [[-0.2, 0, 0.2], ["−0.2", "0", "0.2"]],
      [[0.00001, 0.000011], ["1.0e−5", "1.1e−5"]],
      [[20000, 30000], ["20\u202f000", "30\u202f000"]],
    ])
      assert.deepEqual(f.axisNumbers(values), want);
  },
  "infinite numbers are shown as ∞": table(f.number, [[[Infinity], "∞"], [[-Infinity], "−∞"]]),
  "R-hat has enough decimals to show its distance from 1": table(f.rhat, [[[1.0004], "1.000"], [[1.0138], "1.014"], [[1.38], "1.38"], [[23.7], "23.7"]]),
  "deviations above 100 % are shown as a multiple": table(f.offBy, [[[0], "0.0%"], [[0.0421], "4.2%"], [[1], "100.0%"], [[948.4], "949 ×"], [[null], "–"]]),
  "durations have a readable unit": table(f.duration, [
    [[0], "0 ms"], [[0.0421], "42 ms"], [[0.16], "0.2 s"], [[7.26], "7.3 s"], [[9.96], "10 s"], [[59.4], "59 s"], [[59.6], "1:00 min"], [[754], "12:34 min"], [[3599.7], "1:00 h"], [[7384], "2:03 h"], [[300000], "3.5 days"],
  ]),
  "sizes use decimal units": table(f.bytes, [[[0], "0 B"], [[999], "999 B"], [[1000], "1.0 kB"], [[54819840], "54.8 MB"], [[999600], "1.0 MB"], [[123e9], "123 GB"]]),
  "times omit the parts that are the same as now": () => {
    const now = new Date(2026, 10, 16, 18, 0, 0);
    assert.equal(f.time(new Date(2026, 10, 16, 9, 5, 7).toISOString(), now), "09:05:07");
    assert.equal(f.time(new Date(2026, 2, 2, 9, 15, 1).toISOString(), now), "2 Mar 09:15");
    assert.equal(f.time(new Date(2025, 11, 31, 23, 59, 0).toISOString(), now), "31 Dec 2025");
    assert.equal(f.time("not a time", now), "–");
  },
  "final states are recognised": () => {
    assert.deepEqual(["queued", "running", "paused", "succeeded", "failed", "cancelled"].map((state) => f.hasEnded({ state })), [false, false, false, true, true, true]);
    assert.equal(f.hasEnded(null), false);
  },
  "samplers and models have names in either form": () => {
    assert.equal(f.samplerName({ sampler: { name: "sgbd", variant: "corrected" } }), "sgbd, corrected");
    assert.equal(f.samplerName({ sampler: "barker_mh" }), "barker_mh");
    assert.equal(f.modelName({ model: { name: "ica" } }), "ica");
    assert.equal(f.modelName(null), "–");
  },
};
