/** Numbers, times and counts as texts. */

/**
 * A number as short as it stays telling: five digits.
 * @param {number | null | undefined} value
 */
export function numberText(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (Number.isInteger(value) && size < 1e7) return String(value);
  const short = Number(value.toPrecision(4)); // rounding up may overflow
  return size >= 1e6 || size < 1e-4 ? (Number.isFinite(short) ? short.toExponential() : value.toExponential(3)) : String(Number(value.toPrecision(5)));
}

/** A number at an axis, which has room for seven characters. @param {number} value */
export function tickText(value) {
  const shown = Number(value.toPrecision(12));
  return Math.abs(shown) >= 1e6 ? shown.toExponential().replace("+", "") : numberText(shown);
}

/** A step; of one that a number in a browser does not hold exactly, the nearest. @param {number} step */
export const stepText = (step) => `${Math.abs(step) > Number.MAX_SAFE_INTEGER ? "≈ " : ""}${step.toLocaleString("en")}`;

/** @param {number} seconds */
export function durationText(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (size < 60) return `${Number(seconds.toPrecision(3))} s`;
  if (size < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (size < 86400) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.round((seconds % 86400) / 3600)} h`;
}

/** @param {number | null | undefined} ms */
export function timeText(ms) {
  return ms ? new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "–";
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
