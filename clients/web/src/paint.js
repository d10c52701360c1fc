// A queue of drawings with a time budget per frame. A painter requests a drawing; visible painters are drawn in the
// next animation frame, once however many requests there were, until the budget is used up; the rest come first in
// the next frame. Painters outside the viewport wait until they become visible; a hidden tab draws nothing.
//
//     const painter = painterOf(element, draw);    // draw() is called in a frame while element is visible;
//     painter.request();                           // it returns true if it used up the frame
//     painter.stop();
//     painting();                                  // whether a visible painter is waiting
import { watchVisible } from "./visibility.js";

const BUDGET_MS = 2; // of 16: rasterising takes longer than drawing, and other code needs the frame too

const all = new Set();
const waiting = new Set(); // in order of request
let frame = 0;

function paint() {
  frame = 0;
  const end = performance.now() + BUDGET_MS;
  for (const painter of waiting) {
    if (painter.now()) break;
    const [next] = waiting;
    if (!next || performance.now() + next.cost > end) break;
  }
  if (waiting.size) frame = requestAnimationFrame(paint);
}

export const painting = () => waiting.size > 0;

export function painterOf(element, draw) {
  const painter = {
    visible: false,
    due: false,
    cost: BUDGET_MS, // duration of the last drawing, in ms
    request() {
      painter.due = true;
      if (!painter.visible) return;
      waiting.add(painter);
      frame ||= requestAnimationFrame(paint);
    },
    now() {
      painter.due = false;
      waiting.delete(painter);
      const start = performance.now();
      const enough = draw();
      painter.cost = performance.now() - start;
      return enough;
    },
    stop() {
      all.delete(painter);
      waiting.delete(painter);
      unwatch();
    },
  };
  const unwatch = watchVisible(element, (visible) => {
    painter.visible = visible;
    if (visible && painter.due) painter.request();
  });
  all.add(painter);
  return painter;
}

// When printing, everything is visible.
globalThis.addEventListener?.("beforeprint", () => {
  for (const painter of all) while (painter.due) painter.now();
});
