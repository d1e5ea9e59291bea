/** The values under the cursor, or the last ones, of each run; the chart in words for screen readers. */
import { element, shortened } from "../dom.js";
import { durationText, numberText, stepText } from "../text/format.js";
import { runClass } from "../shell/theme.js";
import { extremes, nearest } from "./line.js";

/** What is at a place on the x axis. @param {import("./plot.js").Drawn} drawn @param {number} index @param {boolean} whole with its range */
function valueText({ line, smooth }, index, whole) {
  const bad = line.bad.find((one) => one.index === index);
  const parts = [];
  if (Number.isFinite(line.value[index])) parts.push(numberText(line.value[index]));
  if (whole && line.low && line.high && line.low[index] < line.high[index]) parts.push(`[${numberText(line.low[index])}, ${numberText(line.high[index])}]`);
  if (Number.isFinite(smooth[index]) && smooth[index] !== line.value[index]) parts.push(`~ ${numberText(smooth[index])}`);
  if (bad) {
    for (const [count, name] of /** @type {[number, string][]} */ ([[bad.nan, "NaN"], [bad.pinf, "+∞"], [bad.ninf, "−∞"]])) {
      if (count) parts.push(count > 1 ? `${count} × ${name}` : name);
    }
  }
  return parts.join(" ") || "–";
}

/**
 * @param {HTMLElement} host
 * @param {import("./plot.js").Drawn[]} drawn
 * @param {number | null} x null shows the last values
 * @param {string} axis
 * @param {string} note
 */
export function showLegend(host, drawn, x, axis, note) {
  const rows = drawn.map((one) => {
    const { line, x: places } = one;
    const index = x === null ? places.length - 1 : nearest(places, x);
    const value = index < 0 ? "–" : x === null && line.low ? numberText(line.end.value) : valueText(one, index, x !== null);
    const step = `step ${stepText(x === null ? line.end.step : line.step[index] ?? NaN)}`;
    const place = index < 0 ? "" : axis === "step" || x === null ? step : axis === "relative" ? durationText(places[index]) : new Date(places[index] * 1000).toLocaleTimeString();
    return element("span", { class: "value", title: one.run.name }, element("span", { class: `swatch ${runClass(one.run.place)}` }),
      drawn.length > 1 && shortened(one.run.name, 18), element("b", null, value), element("span", { class: "note" }, place));
  });
  host.replaceChildren(...rows, ...(note ? [element("span", { class: "alert" }, note)] : []));
}

/** @param {string} name @param {import("./plot.js").Drawn[]} drawn @param {number} alerts */
export function inWords(name, drawn, alerts) {
  const runs = drawn.map(({ run, line }) => {
    if (!line.step.length) return `${run.name}: no points`;
    const { least, most, last } = extremes(line);
    const bad = line.bad.reduce((sum, { nan, pinf, ninf }) => sum + nan + pinf + ninf, 0);
    const range = Number.isNaN(last) ? "nothing finite" : `last ${numberText(Number.isFinite(line.end.value) ? line.end.value : last)}, lowest ${numberText(least)}, highest ${numberText(most)}`;
    return `${run.name}: ${range}, up to step ${stepText(line.end.step)}${bad ? `, ${bad} not finite` : ""}`;
  });
  return `${shortened(name, 200)}. ${runs.join(". ")}.${alerts ? ` ${alerts} alerts about it.` : ""}`;
}
