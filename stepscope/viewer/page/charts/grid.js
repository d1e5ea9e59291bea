/** Where axes have lines and labels, and what room these take; and the points that no line joins. */
import { alone } from "./joined.js";

const MOST_POWERS = 8;
const ROUNDING = 1 + 1e-9;

/** The length of an axis's ticks, and what is between them and its labels. */
const BESIDE = 17;
const [LEAST_RIGHT, ABOVE] = [12, 8];

/** @type {CanvasRenderingContext2D | null} measures apart from the charts: for each canvas of the page, the browser would compute the page's styles */
let pen = null;
const MOST_WIDTHS = 5000;
/** @type {Map<string, number>} by font and text: most charts have the same labels */
const widths = new Map();

/** @param {string} text @param {string} font */
function widthOf(text, font) {
  const key = `${font} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size >= MOST_WIDTHS) widths.clear();
    pen ??= /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    if (pen.font !== font) pen.font = font;
    width = pen.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** The width of the widest label in pixels. @param {string[] | null | undefined} labels @param {string} font */
const widest = (labels, font) => Math.max(0, ...(labels ?? []).flatMap((label) => String(label ?? "").split("\n")).map((line) => widthOf(line, font)));

/**
 * The width of a y axis in which no label is cut off: what is left of it would read as another number.
 * @param {number} least @param {string} font
 * @returns {import("uplot").Axis.Size}
 */
export const roomLeft = (least, font) => (_, labels) => Math.max(least, Math.ceil(widest(labels, font)) + BESIDE);

/**
 * What is around a chart: on both sides, half of a label below that may be in the middle of the first or the last place.
 * On the left, this is where the y axis is, if there is one: where no value is finite, there is none.
 * @param {string} font @returns {import("uplot").Padding}
 */
export function paddings(font) {
  const half = (/** @type {any} */ chart) => Math.max(LEAST_RIGHT, Math.ceil(widest(chart.axes[0]._values, font) / 2) + 1);
  return [ABOVE, half, 0, (chart, _, [, , , hasHeights]) => (hasHeights ? 0 : half(chart))];
}

/**
 * How a line's points look: all where they have room, otherwise those that no line joins.
 * @param {import("uplot").Series.Stroke} colour @returns {import("uplot").Series.Points}
 */
export const pointsOf = (colour) => ({ size: 4, fill: colour, filter: (chart, series, all, gaps) => (all || !gaps?.length ? null : alone(chart.data[series])) });

/**
 * The places between two positive numbers, from every digit to few powers of ten, as they have room.
 * @param {number} low @param {number} high @returns {number[]}
 */
export function logPlaces(low, high) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const decades = Math.log10(high) - Math.log10(low);
  const digits = decades > 2 ? [1] : decades > 0.7 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const stride = Math.max(1, Math.ceil(decades / MOST_POWERS));
  const places = [];
  for (let power = Math.ceil(first / stride) * stride; power <= last; power += stride) {
    for (const digit of digits) {
      const place = Number(`${digit}e${power}`);
      if (place * ROUNDING >= low && place <= high * ROUNDING) places.push(place);
    }
  }
  return places;
}

/**
 * What uPlot's axis needs to be drawn so: it looks for places by steps that are rounded, which may never end; beside the scale's ``distr``.
 * @param {boolean} log
 * @returns {Partial<import("uplot").Axis>}
 */
export const axisOf = (log) => (log ? { splits: (_, __, low, high) => logPlaces(low, high), filter: (_, places) => places } : {});

/**
 * Lets an axis that was made for a linear scale follow one that may be logarithmic.
 * @param {import("uplot").Axis} axis @param {() => boolean} isLog
 */
export function followScale(axis, isLog) {
  const linear = /** @type {Extract<import("uplot").Axis.Splits, Function>} */ (axis.splits);
  axis.splits = (chart, place, low, high, ...rest) => (isLog() ? logPlaces(low, high) : linear(chart, place, low, high, ...rest));
}
