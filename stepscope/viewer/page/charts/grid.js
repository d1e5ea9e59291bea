/** Which lines of a chart's grid are drawn. */

const MOST_DECADES = 2;

/**
 * For uPlot's ``filter``: on a logarithmic axis over several decades only the powers of ten, others lie too close.
 * @param {boolean} log
 * @returns {(chart: unknown, places: (number | null)[]) => (number | null)[]}
 */
export function gridLines(log) {
  return (_, places) => {
    const found = /** @type {number[]} */ (places.filter((place) => place !== null && place > 0));
    if (!log || !found.length || Math.max(...found) / Math.min(...found) <= 10 ** MOST_DECADES) return places;
    return places.map((place) => (place !== null && Math.abs(Math.log10(place) - Math.round(Math.log10(place))) < 1e-6 ? place : null));
  };
}
