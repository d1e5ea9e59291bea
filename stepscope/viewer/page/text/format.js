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

/** Steps at an axis: there is none between two. @param {number[]} ticks */
export const stepTexts = (ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : ""));

/** @param {number} seconds */
export function durationText(seconds) {
  const [size, sign] = [Math.abs(seconds), seconds < 0 ? "-" : ""];
  const [wholeSeconds, minutes, hours] = [1, 60, 3600].map((unit) => Math.round(size / unit));
  if (size < 1) return `${Math.round(seconds * 1000)} ms`;
  if (wholeSeconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  if (minutes < 60) return `${sign}${Math.floor(wholeSeconds / 60)} min ${wholeSeconds % 60} s`;
  if (hours < 24) return `${sign}${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${sign}${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/**
 * Durations at an axis, with as many digits as tell them apart where they are close together.
 * @param {number[]} ticks in seconds, as far from each other as the first two
 */
export function durationTexts(ticks) {
  const texts = ticks.map(durationText);
  if (new Set(texts).size === ticks.length) return texts;
  const apart = ticks[1] - ticks[0];
  const digits = (/** @type {number} */ unit) => Math.min(9, Math.max(0, Math.ceil(-Math.log10(apart / unit) - 1e-9)));
  const most = Math.max(...ticks.map(Math.abs));
  if (most < 1) return ticks.map((tick) => `${(tick * 1000).toFixed(digits(1e-3))} ms`);
  if (most < 60) return ticks.map((tick) => `${tick.toFixed(digits(1))} s`);
  return ticks.map((tick) => {
    const [units, sign] = [Number(Math.abs(tick).toFixed(digits(1))), tick < 0 ? "-" : ""];
    const [hours, minutes, seconds] = [Math.floor(units / 3600), Math.floor(units / 60) % 60, (units % 60).toFixed(digits(1))];
    return apart >= 60 ? `${sign}${hours} h ${minutes} min` : `${sign}${hours}:${two(minutes)}:${Number(seconds) < 10 ? "0" : ""}${seconds}`;
  });
}

const DAY = 86_400;
const two = (/** @type {number} */ part) => String(part).padStart(2, "0");

/**
 * Times of the clock at an axis, with as many digits as tell them apart; days by their date.
 * @param {number[]} ticks in seconds since 1970, as far from each other as the first two
 */
export function clockTexts(ticks) {
  const apart = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  const digits = (/\.(.*?)0*$/.exec(apart.toFixed(6)) ?? ["", ""])[1].length;
  return ticks.map((tick) => {
    const whole = new Date(Math.floor(tick + 10 ** -digits / 2) * 1000);
    const [hours, minutes] = [whole.getHours(), whole.getMinutes()];
    if (apart >= DAY || (apart >= 60 && !hours && !minutes)) {
      return whole.toLocaleDateString("en", apart >= 27 * DAY ? { year: "numeric", month: "short" } : { month: "short", day: "numeric" });
    }
    if (apart >= 60) return `${two(hours)}:${two(minutes)}`;
    const part = digits ? (tick - Math.floor(tick)).toFixed(digits).slice(1) : "";
    return `${apart >= 0.01 ? `${two(hours)}:${two(minutes)}` : ""}:${two(whole.getSeconds())}${part}`;
  });
}

/** @param {number | null | undefined} ms */
export function timeText(ms) {
  return ms ? new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }) : "–";
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
