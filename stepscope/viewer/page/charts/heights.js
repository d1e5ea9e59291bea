/** What the y axis of a chart shows, and by what its values are divided: uPlot draws neither all ranges nor all sizes. */
import uPlot from "uplot";

const SAME = 1e-4; // labels have five digits
const [SMALL, LARGE] = [1e-20, 1e24];
const LEAST_POWER = -300; // of what is smaller, a power of ten has few digits, or is 0
const DIGITS = 6;
/** On a logarithmic axis, a power of ten below it would be followed by 0: uPlot would look for ticks for ever. */
const LEAST = 1e-300;

/**
 * What the y axis shows. Values that differ by less than its labels could tell apart are one line in the middle: uPlot
 * would round their range to nothing, and make ticks for ever.
 * @param {number | null} low @param {number | null} high @returns {[number | null, number | null]}
 */
export function heights(low, high) {
  if (low === null || high === null) return [null, null];
  const [size, middle] = [Math.max(Math.abs(low), Math.abs(high)), (low + high) / 2];
  if (high > low && high - low < SAME * size) return [middle - 10 * SAME * size, middle + 10 * SAME * size];
  return /** @type {[number, number]} */ (uPlot.rangeNum(low, high, 0.1, true));
}

/** The number of one digit beside a positive one. @param {number} value @param {(value: number) => number} round */
function digit(value, round) {
  const power = Math.floor(Math.log10(value));
  return Number(`${Math.max(1, round(Number((value / Number(`1e${power}`)).toPrecision(12))))}e${power}`);
}

/**
 * What a logarithmic y axis shows: to the next digits, so that there is one to be told.
 * @param {number | null} low @param {number | null} high @returns {[number | null, number | null]}
 */
export function logHeights(low, high) {
  if (low === null || high === null) return [null, null];
  const apart = high - low < SAME * high ? 10 : 1;
  return [digit(low / apart, Math.floor), digit(high * apart, Math.ceil)];
}

/**
 * A power of ten by which values are divided to be drawn: uPlot has no ticks for very large and very small ones.
 * @param {ArrayLike<number | null | undefined>[]} columns
 */
export function divisorOf(columns) {
  let largest = 0;
  for (const column of columns) for (let place = 0; place < column.length; place++) largest = Math.max(largest, Math.abs(column[place] || 0));
  if (!largest || (largest > SMALL && largest <= LARGE)) return 1;
  return 10 ** Math.max(LEAST_POWER, Math.floor(Math.log10(largest)) - DIGITS);
}

/**
 * Columns as uPlot can draw them, and by what they were divided.
 * @param {import("./joined.js").Cells[]} columns @param {boolean} log whether the axis is logarithmic
 */
export function drawable(columns, log) {
  const divisor = divisorOf(columns);
  const divided = (/** @type {number} */ value) => (log ? Math.max(LEAST, value / divisor) : value / divisor);
  return { divisor, columns: divisor === 1 && !log ? columns : columns.map((column) => Array.from(column, (value) => value && divided(value))) };
}
