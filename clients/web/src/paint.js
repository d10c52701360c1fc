// Drawing costs frames. Whoever has something to draw asks; with the next animation frame what is in sight is
// drawn, once however often it asked, until the frame's share of time is used up, and what is left comes first
// in the next one. What is out of sight waits until it gets near, and a tab that nobody looks at draws nothing.
//
//     const painter = painterOf(element, draw);    // element: what must be in sight; draw is called in a frame
//     painter.ask();                               // and gives true where that was enough for one frame
//     painter.stop();
import { watchNear } from "./near.js";

const SHARE_MS = 6; // of 16: rasterising what was drawn takes as long again

const all = new Set();
const waiting = new Set(); // in the order of asking
let frame = 0;

function paint() {
  frame = 0;
  const end = performance.now() + SHARE_MS;
  for (const painter of waiting) if (painter.now() || performance.now() > end) break;
  if (waiting.size) frame = requestAnimationFrame(paint);
}

export function painterOf(element, draw) {
  const painter = {
    near: false,
    due: false,
    ask() {
      painter.due = true;
      if (!painter.near) return;
      waiting.add(painter);
      frame ||= requestAnimationFrame(paint);
    },
    now() {
      painter.due = false;
      waiting.delete(painter);
      return draw();
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
  for (const painter of all) if (painter.due) painter.now();
});
