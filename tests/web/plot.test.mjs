import assert from "node:assert/strict";
import * as d from "../../clients/web/src/plotdata.js";
import * as z from "../../clients/web/src/zoom.js";

const near = (got, want) => {
  assert.equal(got === null, want === null, `${got} for ${want}`);
  want?.forEach((x, i) => assert.ok(Math.abs(got[i] - x) < 1e-9 * Math.max(1, Math.abs(x)), `${got} for ${want}`));
};

// A path that records its strokes as [x, from, to].
function strokes(x, y, edges = [-Infinity, Infinity]) {
  const list = [];
  let at;
  d.columns({ moveTo: (a, b) => { at = [a, b]; }, lineTo: (a, b) => list.push([...at, b]) }, { x, y }, [0, x.length - 1], edges, (a) => a, (b) => b);
  return list;
}

const plain = (data) => data.map((column) => [...column]);

const until = async (test) => {
  while (!test()) await new Promise((go) => setTimeout(go, 5));
};

export default {
  "series with different x are aligned on one axis": () => {
    assert.deepEqual(d.aligned([]), [[]]);
    assert.deepEqual(d.aligned([{ x: [1, 4], y: [7, 8] }]), [[1, 4], [7, 8]]);
    assert.deepEqual(plain(d.aligned([{ x: [1, 4, 9], y: [7, null, 8] }, { x: [2, 4], y: [5, 6] }, { x: [], y: [] }])), [
      [1, 2, 4, 9], [7, undefined, null, 8], [undefined, 5, 6, undefined], [undefined, undefined, undefined, undefined],
    ]);
  },
  "unsorted x are sorted; of equal x the last one is kept": () => {
    assert.deepEqual(plain(d.aligned([{ x: [3, 1, 3], y: ["a", "b", "c"] }, { x: [2], y: ["d"] }])), [[1, 2, 3], ["b", undefined, "c"], [undefined, "d", undefined]]);
  },
  "series with many points are sampled at the x of the longest": () => {
    const parts = [{ x: [2, 6], y: [1, 2] }, { x: [0, 2, 4, 8], y: [5, 6, null, 8] }, { x: [], y: [] }];
    assert.deepEqual(d.sampled(parts), [[0, 2, 4, 8], [1, 1, 1, 2], [5, 6, 5, 8], [undefined, undefined, undefined, undefined]]);
  },
  "the ends are the smallest and the largest x of all series": () => {
    assert.deepEqual(d.endsOf([{ x: [2, 6] }, { x: [] }, { x: [3, 9] }]), [2, 9]);
    assert.deepEqual(d.endsOf([{ x: [4] }]), [4, 4]);
    assert.deepEqual(d.endsOf([{ x: [] }]), []);
    assert.deepEqual(d.endsOf([]), []);
  },
  "binary search in a sorted list": () => {
    const xs = [1, 3, 3, 7];
    assert.deepEqual([0, 1, 2, 3, 5, 7, 8].map((x) => d.placeOf(xs, x)), [0, 0, 1, 1, 3, 3, 4]);
    assert.deepEqual([0, 1, 3, 7].map((x) => d.placeOf(xs, x, true)), [0, 1, 3, 4]);
  },
  "the y range covers the visible points of the shown series": () => {
    const parts = [{ x: [0, 1, 2, 3], y: [9, 2, 3, -9] }, { x: [1, 2, 2.5], y: [null, 5, 70] }, { x: [1], y: [100] }];
    assert.deepEqual(d.spread(parts, (k) => k < 2, 1, 2), [2, 5]);
    assert.deepEqual(d.spread(parts, (k) => k === 0, 0, 3), [-9, 9]);
    assert.deepEqual(d.spread(parts, () => true, 10, 20), [Infinity, -Infinity]);
  },
  "the x range of a single point has a margin": () => {
    assert.equal(d.extentOf([], 0, false), null);
    assert.deepEqual(d.extentOf([2, 5, 8], 0, false), [2, 8]);
    near(d.extentOf([20], 0, false), [18, 22]);
    near(d.extentOf([0], 0, false), [-1, 1]);
    near(d.extentOf([0, 10], 0.1, false), [-1, 11]);
    near(d.extentOf([20, 20 + 4e-15], 0, false), [18, 22]); // closer than labels can show
    near(d.extentOf([4, 4], 0, true), [4 / 1.5, 6]);
  },
  "a logarithmic axis has ticks at 1 to 9 times powers of ten": () => {
    assert.deepEqual(d.logTicks(0.07, 0.35), [0.07, 0.08, 0.09, 0.1, 0.2, 0.3]);
    assert.deepEqual(d.logTicks(1, 20), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20]);
    assert.deepEqual(d.logTicks(1e-9, 2e5), [-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5].map((p) => Number(`1e${p}`)));
    near(d.logTicks(4.1, 4.8), [4.1, Math.sqrt(4.1 * 4.8), 4.8]);
  },
  "labels of a logarithmic axis: round numbers first, and apart": () => {
    const place = (x) => 100 * Math.log10(x);
    assert.deepEqual(d.labelled(d.logTicks(0.6, 12), place, 25), [null, null, null, null, 1, 2, null, null, 5, null, null, null, null, 10]);
    assert.deepEqual(d.labelled(d.logTicks(2, 9), place, 25), [2, null, null, 5, null, null, null, 9]);
    assert.deepEqual(d.labelled([1, 10, 100], place, 150), [1, null, 100]);
  },
  "finer data replace the coarse data in their range only": () => {
    const coarse = { x: [0, 10, 20, 30, 40], y: [1, 2, 3, 4, 5] };
    assert.equal(d.refined(coarse, undefined), coarse);
    assert.equal(d.refined(coarse, { x: [], y: [] }), coarse);
    assert.deepEqual(d.refined(coarse, { x: [10, 14, 21], y: [-1, -2, -3] }), { x: [0, 10, 14, 21, 30, 40], y: [1, -1, -2, -3, 4, 5] });
    assert.deepEqual(d.refined(coarse, { x: [50], y: [6] }), { x: [0, 10, 20, 30, 40, 50], y: [1, 2, 3, 4, 5, 6] });
  },
  "pixel columns: one vertical stroke each, without gaps": () => {
    assert.deepEqual(strokes([0, 1, 1.2, 1.4], [0, 10, 3, 5]), [[0, 0, 1], [1, 0, 10]]);
    assert.deepEqual(strokes([0, 4], [0, 8]), [[0, 0, 1], [1, 0, 2], [2, 2, 4], [3, 4, 6], [4, 6, 8]]);
    assert.deepEqual(strokes([0, 1, 2], [5, undefined, 3]), [[0, 5, 6], [1, 4, 5], [2, 3, 4]]);
    assert.deepEqual(strokes([0], [null]), []);
  },
  "pixel columns: those outside the range are skipped, the others do not change": () => {
    const x = [-40, -3, 0, 1, 2, 7, 12], y = [100, 26, 20, -3, 4, 9, -1];
    const [left, right] = [0, 5];
    const seen = ([column]) => column >= left && column <= right;
    assert.deepEqual(strokes(x, y, [left, right]).filter(seen), strokes(x, y).filter(seen));
    assert.deepEqual(strokes([-1e9, 1e9], [0, 0], [3, 5]).map(([column]) => column), [2, 3, 4, 5]);
    assert.deepEqual(strokes([-9, -8], [1, 2], [0, 5]).filter(([column]) => column >= 0), []);
  },
  "the same series are not drawn again": () => {
    const x = [1], y = [2];
    assert.ok(d.sameSeries([{ x, y }], [{ x, y }]));
    assert.ok(!d.sameSeries([{ x, y }], [{ x, y: [2] }]));
    assert.ok(!d.sameSeries([{ x, y }], []));
    assert.ok(!d.sameSeries([], null));
  },
  "zooming keeps the point under the pointer in place, and ends at the whole range": () => {
    near(z.zoomed(null, 0.5, 0.5, [0, 100]), [25, 75]);
    near(z.zoomed([25, 75], 0, 0.5, [0, 100]), [25, 50]);
    near(z.zoomed([25, 75], 1, 0.5, [0, 100]), [50, 75]);
    near(z.zoomed([25, 75], 0.5, 4, [0, 100]), null);
    near(z.zoomed([0, 50], 0.5, 1.5, [0, 100]), [0, 75]);
    near(z.zoomed([1, 100], 0.5, 0.5, [0.01, 10000], true), [Math.sqrt(10), 10 * Math.sqrt(10)]);
  },
  "zooming in ends at the smallest range": () => {
    let range = null;
    for (let i = 0; i < 100; i++) range = z.zoomed(range, 0.3, 0.5, [0, 1e6]);
    assert.ok(Math.abs(range[1] - range[0] - 10) < 1e-6, String(range));
  },
  "the drawn range is wide enough for different labels, and keeps its centre": () => {
    near(z.drawn([20, 40]), [20, 40]);
    near(z.drawn([1e9, 1e9]), [1e9 - 5e-4, 1e9 + 5e-4]);
    const [from, to] = z.drawn([125508.3, 125508.3 + 1.5e-11]);
    assert.ok(to - from > 1e-7 && from < 125508.3 && to > 125508.3, `${from} to ${to}`);
  },
  "a range that the axis cannot show is ignored": () => {
    near(z.possible([20, 40]), [20, 40]);
    near(z.possible([-1, 40]), [-1, 40]);
    near(z.possible([20, 40], true), [20, 40]);
    for (const range of [null, [NaN, NaN], [Infinity, Infinity], [0, Infinity], [9, 3]]) assert.equal(z.possible(range), null, String(range));
    for (const range of [[-1, 40], [0, 40]]) assert.equal(z.possible(range, true), null, String(range));
  },
  "panning stops at the ends": () => {
    near(z.panned([20, 40], 0.5, [0, 100]), [30, 50]);
    near(z.panned([20, 40], -2, [0, 100]), [0, 20]);
    near(z.panned([70, 90], 1, [0, 100]), [80, 100]);
    assert.equal(z.panned(null, 1, [0, 100]), null);
  },
  "the wheel scrolls the page unless Ctrl is held or it turns sideways": () => {
    const turn = (event, range = null) => z.wheeled({ deltaX: 0, deltaY: 0, deltaMode: 0, ctrlKey: false, shiftKey: false, ...event }, range, 0.5, [0, 100], false);
    assert.equal(turn({ deltaY: 120 }), undefined);
    assert.equal(turn({ deltaY: 120, deltaX: 30 }, [20, 40]), undefined);
    assert.equal(turn({ deltaX: 100 }), undefined, "there is nothing to move");
    near(turn({ deltaX: 100 }, [20, 40]), [22, 42]);
    near(turn({ deltaY: 100, shiftKey: true }, [20, 40]), [22, 42]);
    near(turn({ deltaY: -1200, ctrlKey: true }), [50 - 50 / Math.SQRT2, 50 + 50 / Math.SQRT2]);
    near(turn({ deltaY: -10, ctrlKey: true }), [50 - 50 * 2 ** -0.1, 50 + 50 * 2 ** -0.1]);
    near(turn({ deltaY: 1200, ctrlKey: true }), null);
  },
  async "a view is drawn at every move, stored when the gesture ends, and ignores outside changes meanwhile"() {
    const view = new z.View();
    const kept = [];
    let requests = 0;
    const forget = view.add({ request: () => requests++ });
    view.keep = (range) => kept.push(range);
    for (let i = 1; i <= 5; i++) view.move([i, 10]);
    view.move([5, 10]);
    view.put([0, 1]);
    assert.deepEqual([requests, kept, view.range], [5, [], [5, 10]]);
    await until(() => kept.length);
    assert.deepEqual(kept, [[5, 10]]);
    view.put([0, 1]);
    assert.deepEqual([requests, view.range], [6, [0, 1]]);
    view.choose(null);
    view.put([0, 1]);
    assert.deepEqual([requests, kept, view.range], [7, [[5, 10]], null]);
    await until(() => kept.length > 1);
    assert.deepEqual(kept, [[5, 10], null]);
    view.move([8, 9]);
    forget();
    view.choose([1, 2]);
    assert.equal(requests, 8);
    view.keep = null;
    view.choose([3, 4]);
    await until(() => view.kept.get().range);
    assert.deepEqual(view.kept.get().range, [3, 4]);
  },
  async "a view without plots sends no notification"() {
    const view = new z.View(), kept = [];
    view.keep = (range) => kept.push(range);
    const forget = view.add({ request() {} });
    view.move([1, 2]);
    forget();
    const other = new z.View();
    let rested = false;
    other.keep = () => { rested = true; };
    other.move([3, 4]); // after it, and as long
    await until(() => rested);
    assert.deepEqual(kept, []);
  },
};
