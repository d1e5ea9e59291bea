/** What a line cannot show: NaN, infinities and alerts, marked at the axis. */
import { cssColour } from "../dom.js";

const SIZE = 5;

/**
 * @param {CanvasRenderingContext2D} context @param {number} x @param {number} y
 * @param {number} size negative points down
 */
function triangle(context, x, y, size) {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x - Math.abs(size), y + size);
  context.lineTo(x + Math.abs(size), y + size);
  context.closePath();
  context.fill();
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} size */
function cross(context, x, y, size) {
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x - size, y + size);
  context.lineTo(x + size, y - size);
  context.stroke();
}

/**
 * NaN as a cross at the bottom, +infinity as a triangle at the top, -infinity as one at the bottom that points down.
 * @param {import("uplot")} chart @param {import("./plot.js").Drawn[]} drawn
 */
export function drawBad(chart, drawn) {
  const { ctx, bbox } = chart;
  const size = SIZE * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - size, bbox.top, bbox.width + 2 * size, bbox.height);
  ctx.clip();
  ctx.lineWidth = 2 * devicePixelRatio;
  for (const { run, line, x } of drawn) {
    ctx.fillStyle = ctx.strokeStyle = run.colour;
    let before = [-Infinity, -Infinity, -Infinity];
    for (const { index, nan, pinf, ninf } of line.bad) {
      const place = chart.valToPos(x[index], "x", true);
      if (place < bbox.left - size || place > bbox.left + bbox.width + size) continue;
      const near = before.map((one) => place - one < size);
      if (nan && !near[0]) cross(ctx, (before[0] = place), bbox.top + bbox.height - 1.5 * size, size * 0.7);
      if (pinf && !near[1]) triangle(ctx, (before[1] = place), bbox.top + 1.5 * size, size * 0.8);
      if (ninf && !near[2]) triangle(ctx, (before[2] = place), bbox.top + bbox.height - 1.5 * size, -size * 0.8);
    }
  }
  ctx.restore();
}

/**
 * An alert as a dashed line where it names this series, else as a mark on the axis.
 * @param {import("uplot")} chart @param {import("./plot.js").AlertMark[]} alerts
 */
export function drawAlerts(chart, alerts) {
  const { ctx, bbox } = chart;
  const size = SIZE * devicePixelRatio;
  const bottom = bbox.top + bbox.height;
  const colours = { error: cssColour("--bad"), warning: cssColour("--warning"), info: cssColour("--muted") };
  let before = -Infinity;
  ctx.save();
  for (const { x, level, own } of alerts) {
    const place = chart.valToPos(x, "x", true);
    if (place < bbox.left - 1 || place > bbox.left + bbox.width + 1 || (!own && place - before < 2)) continue;
    before = place;
    ctx.fillStyle = ctx.strokeStyle = level in colours ? colours[/** @type {"error"} */ (level)] : colours.error;
    triangle(ctx, place, bottom + size, size * 0.8);
    if (!own) continue;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(place, bbox.top);
    ctx.lineTo(place, bottom);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  ctx.restore();
}
