/** Where a logarithmic axis has lines and labels: uPlot looks for them by steps that are rounded, which may never end. */

const MOST_POWERS = 8;
const ROUNDING = 1 + 1e-9;

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
 * What uPlot's axis needs to be drawn so, beside the scale's ``distr``.
 * @param {boolean} log
 * @returns {Partial<import("uplot").Axis>}
 */
export const axisOf = (log) => (log ? { splits: (_, __, low, high) => logPlaces(low, high), filter: (_, places) => places } : {});
