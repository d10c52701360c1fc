// The cost of frames. The time from one frame to the next is at least the display's 16.7 ms, so it does not show how
// much of a frame a fast page uses. Measured instead is the work of the page's main thread per frame: script, style,
// layout, painting, and rasterising of canvases, which chromium does on that thread if it has no GPU. It is
// taken from chromium's own trace: the tasks between the beginnings of two frames.

const CATEGORIES = ["-*", "devtools.timeline", "disabled-by-default-devtools.timeline", "devtools.timeline.frame", "disabled-by-default-devtools.timeline.frame"];

const at = (sorted, share) => sorted[Math.floor(share * (sorted.length - 1))].toFixed(1);

function spread(times) {
  const sorted = [...times].sort((a, b) => a - b);
  return `${at(sorted, 0.5)} / ${at(sorted, 0.95)} / ${at(sorted, 1)}`;
}

// [{wall, processor}] in ms, one per frame.
function framesOf(events) {
  const begins = events.filter((e) => e.name === "BeginMainThreadFrame").sort((a, b) => a.ts - b.ts);
  const { pid } = begins[0] ?? {};
  const main = events.find((e) => e.name === "thread_name" && e.pid === pid && e.args.name === "CrRendererMain")?.tid;
  const starts = begins.filter((e) => e.pid === pid).map((e) => e.ts);
  const frames = starts.map(() => ({ wall: 0, processor: 0 }));
  const tasks = events.filter((e) => e.name === "RunTask" && e.dur !== undefined && e.pid === pid && e.tid === main).sort((a, b) => a.ts - b.ts);
  let k = 0;
  for (const task of tasks) {
    const middle = task.ts + task.dur / 2;
    while (k + 1 < starts.length && starts[k + 1] < middle) k++;
    if (middle < starts[0]) continue;
    frames[k].wall += task.dur / 1000;
    frames[k].processor += (task.tdur ?? task.dur) / 1000;
  }
  return frames;
}

// Runs an action and prints the cost of the frames meanwhile.
export async function timed(t, page, what, body) {
  await t.browser.startTracing(page, { categories: CATEGORIES });
  await body();
  const { traceEvents } = JSON.parse((await t.browser.stopTracing()).toString());
  const frames = framesOf(traceEvents);
  const dropped = traceEvents.filter((e) => e.name === "DroppedFrame").length;
  if (!frames.length) return console.log(`frames, ${what}: none`);
  return console.log(`frames, ${what}: work median / 95 % / largest ${spread(frames.map((f) => f.wall))} ms, of it processor time ${spread(frames.map((f) => f.processor))} ms; ${frames.length} frames, ${dropped} dropped`);
}

// Scrolls a box a little before each frame, down and up again.
export const scrolled = (box, step, times) => box.evaluate(async (element, [by, n]) => {
  for (let i = 0, top = element.scrollTop; i < 2 * n; i++) {
    top += (i < n ? by : -by) * (i % 7 + 1);
    element.scrollTop = top;
    await new Promise(requestAnimationFrame);
  }
}, [step, times]);

// Records in window.drawing what is drawn: canvases created, and for each frame the canvases that were
// cleared (uPlot clears at the start of every drawing) and the points of all paths. Call it before page.goto.
export const countDrawing = (page) => page.addInitScript(() => {
  const frames = [{ cleared: [], points: 0 }];
  const now = () => frames[frames.length - 1];
  window.drawing = { made: 0, frames };
  const wrap = (prototype, name, before) => {
    const real = prototype[name];
    prototype[name] = function wrapped(...args) {
      before(this, args);
      return real.apply(this, args);
    };
  };
  wrap(Document.prototype, "createElement", (_, [name]) => { if (name === "canvas") window.drawing.made++; });
  wrap(CanvasRenderingContext2D.prototype, "clearRect", (ctx) => now().cleared.push(ctx.canvas));
  wrap(Path2D.prototype, "lineTo", () => { now().points++; });
  const tick = () => {
    if (now().cleared.length || now().points) frames.push({ cleared: [], points: 0 });
    requestAnimationFrame(tick); // runs first in the next frame, because it is requested first
  };
  requestAnimationFrame(tick);
});

// What was drawn since the last call: {made, frames: [{drawn, twice, points}]}; `twice` counts the canvases drawn
// more than once in a frame.
export const drawnSince = (page) => page.evaluate(() => {
  const { made, frames } = window.drawing;
  const told = frames.filter((f) => f.cleared.length).map((f) => ({ drawn: f.cleared.length, twice: f.cleared.length - new Set(f.cleared).size, points: f.points }));
  window.drawing.made = 0;
  frames.splice(0, frames.length, { cleared: [], points: 0 });
  return { made, frames: told };
});

// Waits until several frames have passed without a drawing.
export const quiet = (page) => page.evaluate(async () => {
  for (let still = 0, last = null; still < 6; still++) {
    await new Promise(requestAnimationFrame);
    const { frames } = window.drawing;
    const now = frames.length;
    if (now !== last || frames[now - 1].cleared.length) still = 0;
    last = now;
  }
});

// Records in table.filling how often row elements were added or removed, and how many rows were filled per frame.
export const countRows = (table) => table.evaluate((element) => {
  const filling = { made: 0, frames: [0] };
  let time = null;
  const isRow = (node) => node.classList?.contains("vrow");
  new MutationObserver((records) => {
    if (document.timeline.currentTime !== time) filling.frames.push(0);
    time = document.timeline.currentTime;
    for (const { addedNodes, removedNodes } of records) filling.made += [...addedNodes, ...removedNodes].filter(isRow).length;
    filling.frames[filling.frames.length - 1] += records.filter((r) => r.attributeName === "aria-rowindex").length;
  }).observe(element, { subtree: true, childList: true, attributeFilter: ["aria-rowindex"] });
  element.filling = filling;
});

// Memory, nodes and listeners of a page after garbage collection.
export async function holdings(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
  await session.detach();
  return { megabytes: usedSize / 1e6, nodes, listeners: jsEventListeners };
}
