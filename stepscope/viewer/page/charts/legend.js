/** The values under the cursor, or the last ones, of each run; the chart in words for screen readers. */
import { element, shortened } from "../dom.js";
import { durationText, numberText, stepText } from "../text/format.js";
import { runClass } from "../shell/theme.js";
import { extremes, firstAtLeast, nearest } from "./line.js";

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

/** Which points of a line are in a part of the x axis: the first of them, and the one after the last. @param {ArrayLike<number>} places @param {[number, number] | null} part @returns {[number, number]} */
function inPart(places, part) {
  if (!part) return [0, places.length];
  const end = firstAtLeast(places, part[1]);
  return [firstAtLeast(places, part[0]), places[end] === part[1] ? end + 1 : end];
}

/**
 * @param {HTMLElement} host
 * @param {import("./plot.js").Drawn[]} drawn
 * @param {number | null} x null shows the last values in the part that is seen
 * @param {import("./plot.js").Look} look
 * @param {string} note
 */
export function showLegend(host, drawn, x, { axis, zoom }, note) {
  const rows = drawn.map((one) => {
    const { line, x: places } = one;
    const [first, end] = inPart(places, zoom);
    const index = x !== null ? nearest(places, x) : end > first ? end - 1 : -1;
    const isLast = x === null && index === places.length - 1;
    const value = index < 0 ? "–" : isLast && line.low ? numberText(line.end.value) : valueText(one, index, x !== null);
    const step = `step ${stepText(isLast ? line.end.step : line.step[index] ?? NaN)}`;
    const place = index < 0 ? "" : axis === "step" || x === null ? step : axis === "relative" ? durationText(places[index]) : new Date(places[index] * 1000).toLocaleTimeString();
    return element("span", { class: "value", title: one.run.name }, element("span", { class: `swatch ${runClass(one.run.place)}` }),
      drawn.length > 1 && shortened(one.run.name, 18), element("b", null, value), element("span", { class: "note" }, place));
  });
  host.replaceChildren(...rows, ...(note ? [element("span", { class: "alert" }, note)] : []));
}

/** @param {string} name @param {import("./plot.js").Drawn[]} drawn @param {[number, number] | null} part that is seen @param {number} alerts */
export function inWords(name, drawn, part, alerts) {
  const runs = drawn.map(({ run, line, x }) => {
    const [first, end] = inPart(x, part);
    if (end <= first) return `${run.name}: no points`;
    const { least, most, last } = extremes(line, first, end);
    const bad = line.bad.reduce((sum, { index, nan, pinf, ninf }) => sum + (index >= first && index < end ? nan + pinf + ninf : 0), 0);
    const isLast = end === x.length;
    const range = Number.isNaN(last) ? "nothing finite" : `last ${numberText(isLast && Number.isFinite(line.end.value) ? line.end.value : last)}, lowest ${numberText(least)}, highest ${numberText(most)}`;
    return `${run.name}: ${range}, up to step ${stepText(isLast ? line.end.step : line.step[end - 1])}${bad ? `, ${bad} not finite` : ""}`;
  });
  return `${shortened(name, 200)}. ${runs.join(". ")}.${alerts ? ` ${alerts} alerts about it.` : ""}`;
}
