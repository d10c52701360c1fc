// Drawing costs frames. Whoever has something to draw asks; with the next animation frame what is in sight is
// drawn, once however often it asked, as long as it fits into the frame's share of time, and what is left comes
// first in the next one: plots that a hand moves take turns. What is out of sight waits until it gets near, and a
// tab that nobody looks at draws nothing.
//
//     const painter = painterOf(element, draw);    // element: what must be in sight; draw is called in a frame
//     painter.ask();                               // and gives true where that was enough for one frame
//     painter.stop();
//     painting();                                  // whether somebody in sight waits
import { watchNear } from "./near.js";

const SHARE_MS = 2; // of 16: rasterising what was drawn takes longer, and the page has other things to do

const all = new Set();
const waiting = new Set(); // in the order of asking
let frame = 0;

function paint() {
  frame = 0;
  const end = performance.now() + SHARE_MS;
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
    near: false,
    due: false,
    cost: SHARE_MS, // in ms, the last time
    ask() {
      painter.due = true;
      if (!painter.near) return;
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
      forget();
    },
  };
  const forget = watchNear(element, (near) => {
    painter.near = near;
    if (near && painter.due) painter.ask();
  });
  all.add(painter);
  return painter;
}

// Paper has everything in sight.
globalThis.addEventListener?.("beforeprint", () => {
  for (const painter of all) while (painter.due) painter.now();
});
