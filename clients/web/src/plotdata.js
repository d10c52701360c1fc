// Plot data in the form that uPlot needs. Pure functions.

function ascending(xs) {
  for (let i = 1; i < xs.length; i++) if (!(xs[i] > xs[i - 1])) return false;
  return true;
}

// {x, y} of a series sorted by x; of equal x the last one.
export function ordered({ x, y }) {
  if (ascending(x)) return { x, y };
  const points = new Map(x.map((value, i) => [value, y[i]]));
  const xs = [...points.keys()].sort((a, b) => a - b);
  return { x: xs, y: xs.map((value) => points.get(value)) };
}

// The union of the x of sorted parts. Typed arrays, because thousands are merged within one frame.
function unionOf(parts) {
  const lists = parts.map((part) => Float64Array.from(part.x)), at = lists.map(() => 0);
  const xs = new Float64Array(lists.reduce((sum, list) => sum + list.length, 0));
  for (let n = 0; ; n++) {
    let next = Infinity;
    for (let k = 0; k < lists.length; k++) if (lists[k][at[k]] < next) next = lists[k][at[k]];
    if (next === Infinity) return xs.subarray(0, n);
    xs[n] = next;
    for (let k = 0; k < lists.length; k++) if (lists[k][at[k]] === next) at[k]++;
  }
}

// The series over the union of their x: [xs, ys of the first, …], undefined where one has no point.
export function aligned(series) {
  const parts = series.map(ordered);
  if (parts.length <= 1) return parts.length ? [parts[0].x, parts[0].y] : [[]];
  const xs = unionOf(parts);
  return [xs, ...parts.map(({ x, y }) => {
    const column = new Array(xs.length).fill(undefined);
    for (let i = 0, k = 0; i < xs.length; i++) if (xs[i] === x[k]) column[i] = y[k++];
    return column;
  })];
}

// A cheaper version for many points, which only serves the cursor: the x of the longest series, with the last y of
// every other series at each of them. A tenth of the work.
export function sampled(parts) {
  const { x: xs } = parts.reduce((longest, part) => (part.x.length > longest.x.length ? part : longest));
  return [xs, ...parts.map(({ x, y }) => {
    let k = -1;
    return xs.map((at) => {
      while (x[k + 1] <= at) k++;
      return y[k] ?? y[0];
    });
  })];
}

// [smallest x, largest x], or [].
export function endsOf(parts) {
  const some = parts.filter((part) => part.x.length);
  return some.length ? [Math.min(...some.map(({ x }) => x[0])), Math.max(...some.map(({ x }) => x[x.length - 1]))] : [];
}

// The first index where xs is at least (with `after`: greater than) x.
export function placeOf(xs, x, after = false) {
  let lo = 0, hi = xs.length;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (after ? xs[middle] <= x : xs[middle] < x) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}

// The smallest and largest y of the shown parts between two x; [Infinity, -Infinity] if none.
export function spread(parts, shown, from, to) {
  let lo = Infinity, hi = -Infinity;
  parts.forEach((part, k) => {
    if (!shown(k)) return;
    const end = placeOf(part.x, to, true);
    for (let i = placeOf(part.x, from); i < end; i++) {
      const y = part.y[i];
      if (y === null || y === undefined) continue;
      if (y < lo) lo = y;
      if (y > hi) hi = y;
    }
  });
  return [lo, hi];
}

// The smallest width of an axis at which its labels still differ in double precision.
export const minWidth = (min, max) => 1e-12 * Math.max(Math.abs(min), Math.abs(max));

// The range of an axis with a margin; a (nearly) single value gets a margin of its own.
export function roomFor(min, max, pad) {
  const room = max - min > minWidth(min, max) ? pad * (max - min) : 0.1 * Math.abs(max) || 1;
  return [min - room, max + room];
}

// The ticks of a logarithmic axis: 1 to 9 times the powers of ten, or the powers alone if these are many.
export function logTicks(min, max) {
  const list = [], low = Math.floor(Math.log10(min)), high = Math.ceil(Math.log10(max));
  const digits = high - low > 12 ? [1] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  for (let power = low; power <= high; power++) list.push(...digits.map((k) => Number(`${k}e${power}`)).filter((x) => x >= min && x <= max));
  return list.length > 1 ? list : [min, Math.sqrt(min * max), max];
}

const LABELLED = [1, 5, 2, 3, 7, 4, 6, 8, 9]; // leading digits, the ones with labels first

// Those ticks that have room for a label, `gap` apart by place(tick); the others null.
export function labelled(ticks, place, gap) {
  const digit = (x) => Number(x.toExponential()[0]), kept = [];
  for (const first of LABELLED)
    for (const tick of ticks) if (digit(tick) === first && kept.every((other) => Math.abs(place(other) - place(tick)) >= gap)) kept.push(tick);
  return ticks.map((tick) => (kept.includes(tick) ? tick : null));
}

// The whole range of x; null if empty.
export function extentOf(xs, pad, log) {
  const min = xs[0], max = xs[xs.length - 1];
  if (xs.length === 0) return null;
  if (log && (pad || !(max > min))) return [min / 1.5 / (max / min) ** pad, max * 1.5 * (max / min) ** pad];
  return roomFor(min, max, pad);
}

// One vertical stroke per pixel column from `left` (and one before it) to `right`: the part that the line covers.
export function columns(path, { x: xs, y: ys }, [from, to], [left, right], toX, toY) {
  let column = NaN, lo = 0, hi = 0, last = 0;
  const stroke = () => {
    path.moveTo(column, lo);
    path.lineTo(column, hi === lo ? hi + 1 : hi);
  };
  const reach = (y) => {
    if (y < lo) lo = y;
    if (y > hi) hi = y;
  };
  for (let i = from; i <= to; i++) {
    if (ys[i] === undefined || ys[i] === null) continue;
    const x = Math.round(toX(xs[i])), y = Math.round(toY(ys[i]));
    if (Number.isNaN(column)) [column, lo, hi, last] = [x, y, y, y];
    const slope = (y - last) / (x - column), skipped = Math.min(x, left - 1) - column;
    if (skipped > 0) {
      column += skipped;
      last += skipped * slope;
      lo = hi = Math.round(last);
    }
    while (column < x && column <= right) {
      stroke();
      column++;
      lo = hi = Math.round(last);
      last += slope;
      reach(Math.round(last));
    }
    if (column > right) return;
    reach(y);
    last = y;
  }
  if (!Number.isNaN(column)) stroke();
}

// x and y with the range covered by finer data replaced by them.
export function refined(coarse, fine) {
  if (!fine?.x.length) return coarse;
  const before = placeOf(coarse.x, fine.x[0]), after = placeOf(coarse.x, fine.x[fine.x.length - 1], true);
  const cut = (list, middle) => list.slice(0, before).concat(middle, list.slice(after));
  return { x: cut(coarse.x, fine.x), y: cut(coarse.y, fine.y) };
}

export const sameSeries = (a, b) => a === b || (a?.length === b?.length && a.every((s, i) => s.x === b[i].x && s.y === b[i].y));
