/** From values to colours: linear, logarithmic, or shares from 0 to 1; what is not finite has colours of its own. */

export const FINITE = 1;
export const NAN = 2;
export const POSITIVE = 4;
export const NEGATIVE = 8;
export const UNKNOWN = 16;
/** As in debuggers/pictures/colours.py: viridis, and two of Okabe and Ito's. */
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
export const NAN_COLOUR = "#d55e00";
export const POSITIVE_COLOUR = "#cc79a7";
export const NEGATIVE_COLOUR = "#56b4e9";
export const ZERO_COLOUR = "#000000";

/** 256 colours as little-endian RGBA. */
export const TABLE = Uint32Array.from({ length: 256 }, (_, place) => {
  const at = (place / 255) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const [r, g, b] = [0, 1, 2].map((one) => Math.round(VIRIDIS[low][one] + (at - low) * (VIRIDIS[low + 1][one] - VIRIDIS[low][one])));
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
});

/** @param {string} colour #rrggbb */
export function rgba(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** @typedef {{kind: "log" | "linear" | "share", low: number, high: number, zeros: boolean}} Scale */

/**
 * A scale that holds all values.
 * @param {string} kind as the reader or the statistic wants it; a logarithm needs values above zero
 * @param {ArrayLike<number>} values finite, or NaN for none
 * @returns {Scale}
 */
export function scaleOf(kind, values) {
  let [low, high, least, zeros, below] = [Infinity, -Infinity, Infinity, false, false];
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (value < low) low = value;
    if (value > high) high = value;
    if (value > 0 && value < least) least = value;
    zeros ||= value === 0;
    below ||= value < 0;
  }
  if (low === Infinity) return { kind: "linear", low: 0, high: 1, zeros: false };
  if (kind === "share") return { kind: "share", low: Math.min(0, low), high: Math.max(1, high), zeros: false };
  if (kind === "log" && !below && least < Infinity) return { kind: "log", low: least, high, zeros };
  return { kind: "linear", low, high, zeros: false };
}

/** From 0 to 1; below 0 for zero on a logarithmic scale. @param {Scale} scale @param {number} value */
export function shareOf({ kind, low, high }, value) {
  if (kind === "log") return value <= 0 ? -1 : high === low ? 0.5 : Math.log(value / low) / Math.log(high / low);
  return high === low ? 0.5 : (value - low) / (high - low);
}

/** What lies at a share. @param {Scale} scale @param {number} share */
export function valueAt({ kind, low, high }, share) {
  return kind === "log" ? low * (high / low) ** share : low + share * (high - low);
}
