// Curves through points in their own order (not that of x), with error bars in both directions.
const ERRORS = 2; // a bar reaches this many standard errors to both sides
const CAP_PX = 3, DOT_PX = 3;

// The ends of an error bar, or null. On a logarithmic axis a bar that reaches 0 has no lower end: -Infinity.
export function barOf(value, error, log) {
  if (typeof error !== "number" || !(error > 0)) return null;
  const low = value - ERRORS * error;
  return [log && low <= 0 ? -Infinity : low, value + ERRORS * error];
}

// The y that the axis should cover besides the points: ends of bars, except those far below on a logarithmic axis.
export function reachOf(series, log) {
  return series.flatMap(({ y, trail }) => y.flatMap((value, i) => (barOf(value, trail.yError[i], log) ?? []).filter((end) => Number.isFinite(end) && !(log && end < value / 10))));
}

function drawBar(u, along, [low, high], across) {
  const { ctx, bbox } = u, px = devicePixelRatio * CAP_PX;
  const place = (value) => (value === -Infinity ? (along === "x" ? bbox.left - px : bbox.top + bbox.height + px) : u.valToPos(value, along, true));
  const line = (a, b, c, d) => {
    ctx.moveTo(...(along === "x" ? [a, b] : [b, a]));
    ctx.lineTo(...(along === "x" ? [c, d] : [d, c]));
  };
  const from = place(low), to = place(high);
  ctx.beginPath();
  line(from, across, to, across);
  for (const end of [from, to]) line(end, across - px, end, across + px);
  ctx.stroke();
}

// A hook of uPlot. colourOf(series, i) is its CSS colour.
export function drawTrails(options, colourOf) {
  return (u) => {
    const { ctx, bbox } = u, { series, hidden, logX, logY } = options.current;
    series.forEach((s, i) => {
      if (!s.trail || hidden?.has(i)) return;
      const at = s.x.map((x, k) => [u.valToPos(x, "x", true), u.valToPos(s.y[k], "y", true)]);
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.strokeStyle = ctx.fillStyle = colourOf(s, i);
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.beginPath();
      at.forEach((p) => ctx.lineTo(...p));
      ctx.stroke();
      ctx.lineWidth = devicePixelRatio;
      at.forEach(([x, y], k) => {
        ctx.globalAlpha = 0.5;
        const across = barOf(s.x[k], s.trail.xError[k], logX), up = barOf(s.y[k], s.trail.yError[k], logY);
        if (across) drawBar(u, "x", across, y);
        if (up) drawBar(u, "y", up, x);
        ctx.globalAlpha = 1;
        ctx.beginPath();
        ctx.arc(x, y, DOT_PX * devicePixelRatio, 0, 2 * Math.PI);
        ctx.fill();
      });
      ctx.restore();
    });
  };
}
