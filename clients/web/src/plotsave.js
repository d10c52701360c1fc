// Saves a plot as PNG or CSV.
import { saveBlob } from "./api.js";

// The canvas with the title above it, on the background of the page.
export function savePng(u, { title = "", note = "", name, background }) {
  const scale = devicePixelRatio;
  const head = Math.round(26 * scale);
  const source = u.ctx.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = source.width;
  canvas.height = source.height + head;
  const ctx = canvas.getContext("2d");
  ctx.fillStyle = background.panel;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = background.text;
  ctx.font = `600 ${13 * scale}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  ctx.fillText(typeof note === "string" && note ? `${title}   ${note}` : title, 10 * scale, head / 2, canvas.width - 20 * scale);
  ctx.drawImage(source, 0, head);
  canvas.toBlob((blob) => saveBlob(blob, `${name}.png`), "image/png");
}

const quote = (text) => `"${String(text).replaceAll('"', '""')}"`;

// One column per series, full precision, empty cells where a series has no point.
export function plotCsv(xLabel, series, data) {
  const lines = [[xLabel, ...series.map((s) => s.label)].map(quote).join(",")];
  for (let i = 0; i < data[0].length; i++) lines.push(data.map((column) => column[i] ?? "").join(","));
  return lines.join("\n") + "\n";
}
