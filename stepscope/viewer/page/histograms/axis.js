/** The axis of values: linear, or logarithmic on either side of zero. */
import { numberText } from "../text/format.js";

const LEFT_OUT = 0.002;
const MOST_POWERS = 40;

/**
 * @typedef {object} Axis
 * @property {(value: number) => number} place from 0 to 1
 * @property {{at: number, text: string}[]} ticks
 */

/** The magnitude below which only a few of a thousand elements lie: what is smaller is drawn towards zero. @param {import("./found.js").Found[]} all */
function smallest(all) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  let [total, most] = [0, 0];
  for (const { columns, rows, wide, meta } of all) {
    for (let bin = 0; bin < wide; bin++) {
      const [low, high] = [Math.abs(columns.edges[bin]), Math.abs(columns.edges[bin + 1])];
      most = Math.max(most, low, high);
      if (bin === meta.zero_bin) continue;
      let count = 0;
      for (let row = 0; row < rows; row++) count += columns.bins[row * wide + bin];
      counts.set(Math.min(low, high), (counts.get(Math.min(low, high)) ?? 0) + count);
      total += count;
    }
  }
  let below = 0;
  for (const [edge, count] of [...counts].sort((a, b) => a[0] - b[0])) {
    below += count;
    if (below > LEFT_OUT * total && edge > 0) return Math.max(edge, most * 2 ** -MOST_POWERS);
  }
  return most ? most / 2 : 1;
}

/** @param {import("./found.js").Found[]} all @param {boolean} log @returns {Axis} */
export function axisOf(all, log) {
  let [low, high] = [Infinity, -Infinity];
  for (const { columns, rows } of all) {
    for (let row = 0; row < rows; row++) {
      if (columns.min[row] < low) low = columns.min[row];
      if (columns.max[row] > high) high = columns.max[row];
    }
  }
  if (low === Infinity) [low, high] = [-1, 1];
  if (low === high) [low, high] = [low - Math.max(1e-9, Math.abs(low) / 10), high + Math.max(1e-9, Math.abs(high) / 10)];
  const tiny = log ? smallest(all) : 1;
  const bent = (/** @type {number} */ value) => {
    if (!log) return value;
    const size = Math.abs(value) / tiny;
    return Math.sign(value) * (size < 1 ? size : 1 + Math.log2(size));
  };
  const [first, last] = [bent(low), bent(high)];
  const place = (/** @type {number} */ value) => Math.min(1, Math.max(0, (bent(value) - first) / (last - first || 1)));
  return { place, ticks: log ? powers(low, high, tiny, place) : even(low, high, place) };
}

/** @param {number} low @param {number} high @param {(value: number) => number} place */
function even(low, high, place) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = /** @type {number} */ ([1, 2, 5, 10].find((times) => times * power >= rough)) * power;
  const ticks = [];
  for (let tick = Math.ceil(low / step); tick * step <= high; tick++) ticks.push({ at: place(tick * step), text: numberText(Number((tick * step).toPrecision(6))) });
  return ticks;
}

/** @param {number} low @param {number} high @param {number} tiny @param {(value: number) => number} place */
function powers(low, high, tiny, place) {
  const most = Math.floor(Math.log10(Math.max(Math.abs(low), Math.abs(high))));
  const least = Math.ceil(Math.log10(tiny));
  const every = Math.max(1, Math.ceil((most - least) / 4));
  const ticks = low <= 0 && high >= 0 ? [{ at: place(0), text: "0" }] : [];
  for (let power = most; power >= least; power -= every) {
    for (const value of [10 ** power, -(10 ** power)]) {
      if (value >= low && value <= high) ticks.push({ at: place(value), text: `${value < 0 ? "−" : ""}1e${power}` });
    }
  }
  ticks.sort((a, b) => a.at - b.at);
  return ticks.filter((tick, index) => index === 0 || tick.at - ticks[index - 1].at > 0.05 || tick.text === "0");
}
