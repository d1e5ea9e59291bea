/**
 * The series of one run as a chart needs it: points, or what lies in ranges of steps.
 *
 * @typedef {object} Bad what is not finite
 * @property {number} index
 * @property {number} nan how many
 * @property {number} pinf
 * @property {number} ninf
 *
 * @typedef {object} Line
 * @property {Float64Array} step of a range, its first
 * @property {Float64Array} time in ms since 1970
 * @property {Float64Array} value NaN where none is finite; of a range, its mean
 * @property {Float64Array | null} low
 * @property {Float64Array | null} high
 * @property {Bad[]} bad
 * @property {{step: number, value: number}} end the last value; NaN where there is none
 */

/** @param {import("../data/columns.js").Columns} answer @returns {Line} */
export function lineOf({ meta, columns }) {
  const column = (/** @type {string} */ name) => /** @type {Float64Array} */ (columns[name]);
  /** @type {Bad[]} */
  const bad = [];
  if (meta.form !== "ranges") {
    const raw = column("value");
    const value = Float64Array.from(raw);
    for (let index = 0; index < raw.length; index++) {
      if (Number.isFinite(raw[index])) continue;
      value[index] = NaN;
      bad.push({ index, nan: +Number.isNaN(raw[index]), pinf: +(raw[index] === Infinity), ninf: +(raw[index] === -Infinity) });
    }
    const end = { step: raw.length ? column("step")[raw.length - 1] : NaN, value: raw.length ? raw[raw.length - 1] : NaN };
    return { step: column("step"), time: column("time_ms"), value, low: null, high: null, bad, end };
  }
  const step = column("step");
  const place = step.length - 1;
  const end = { step: (columns.last_step ?? step)[place] ?? NaN, value: columns.last?.[place] ?? NaN };
  for (let index = 0; index < step.length; index++) {
    const [nan, pinf, ninf] = ["nan", "pinf", "ninf"].map((name) => columns[name]?.[index] ?? 0);
    if (nan || pinf || ninf) bad.push({ index, nan, pinf, ninf });
  }
  return { step, time: column("time_ms"), value: column("mean") ?? column("last"), low: column("min"), high: column("max"), bad, end };
}

/** @param {Float64Array | null} head @param {number} count @param {Float64Array} tail */
function joined(head, count, tail) {
  const all = new Float64Array(count + tail.length);
  if (head) all.set(head.subarray(0, count));
  all.set(tail, count);
  return all;
}

/**
 * A line with what is new: ``tail`` replaces all from its first step on.
 * @param {Line} line @param {Line} tail @returns {Line}
 */
export function extended(line, tail) {
  if (!tail.step.length) return line;
  const count = firstAtLeast(line.step, tail.step[0]);
  const ranges = line.low || tail.low;
  return {
    step: joined(line.step, count, tail.step),
    time: joined(line.time, count, tail.time),
    value: joined(line.value, count, tail.value),
    low: ranges ? joined(line.low ?? line.value, count, tail.low ?? tail.value) : null,
    high: ranges ? joined(line.high ?? line.value, count, tail.high ?? tail.value) : null,
    bad: [...line.bad.filter(({ index }) => index < count), ...tail.bad.map((one) => ({ ...one, index: one.index + count }))],
    end: tail.end,
  };
}

/** The first index at which ascending numbers reach a number. @param {ArrayLike<number>} sorted @param {number} number */
export function firstAtLeast(sorted, number) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index of the nearest of ascending numbers, -1 for none. @param {ArrayLike<number>} sorted @param {number} number */
export function nearest(sorted, number) {
  const after = firstAtLeast(sorted, number);
  if (after === 0 || after === sorted.length) return Math.min(after, sorted.length - 1);
  return sorted[after] - number < number - sorted[after - 1] ? after : after - 1;
}

/**
 * The places on the x axis: steps, seconds since the start, or seconds since 1970. Times that repeat are moved by a
 * microsecond, because a chart needs ascending places.
 * @param {Line} line @param {string} axis "step", "relative" or "wall" @param {number} startMs
 */
export function placesOf(line, axis, startMs) {
  if (axis === "step") return line.step;
  const places = new Float64Array(line.time.length);
  let before = -Infinity;
  for (let index = 0; index < places.length; index++) {
    const seconds = (line.time[index] - (axis === "relative" ? startMs : 0)) / 1000;
    before = places[index] = seconds > before ? seconds : before + 1e-6;
  }
  return places;
}

/** Last, lowest and highest finite value of the points from one up to before another. @param {Line} line @param {number} [first] @param {number} [end] */
export function extremes({ value, low, high }, first = 0, end = value.length) {
  let [least, most, last] = [Infinity, -Infinity, NaN];
  for (let index = first; index < end; index++) {
    const [below, above] = [low ? low[index] : value[index], high ? high[index] : value[index]];
    if (below < least) least = below;
    if (above > most) most = above;
    if (Number.isFinite(value[index])) last = value[index];
  }
  return { least, most, last };
}
