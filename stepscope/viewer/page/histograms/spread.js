/** How the elements of one histogram lie along an axis of pixels. */

/** Bars that the cube root of the number of elements is multiplied with (Rice's rule has 2): an axis holds all steps. */
const BARS = 4;

/**
 * How many pixels a bar takes, a power of two, so that the bars of all steps lie on one grid: of few elements, most bins
 * of an eighth of a power of two hold one or none, and would look like scattered lines.
 * @param {number} elements without zeros @param {number} size
 */
export function barPixels(elements, size) {
  return 2 ** Math.max(0, Math.floor(Math.log2(size / (BARS * Math.cbrt(Math.max(1, elements))))));
}

/**
 * The elements on each of some pixels along the axis, as a share of the fullest pixel. Zeros may be many: their number
 * stands beside the picture, so that the others set its scale, and they have no part in another bar.
 * @param {import("./found.js").Found} found @param {number} row @param {import("./axis.js").Axis} axis @param {number} size
 */
export function spread(found, row, axis, size) {
  const { columns, wide, meta } = found;
  const [pixels, zeros] = [new Float64Array(size), new Float64Array(size)];
  let elements = 0;
  for (let bin = 0; bin < wide; bin++) {
    const count = columns.bins[row * wide + bin];
    if (!count) continue;
    if (bin !== meta.zero_bin) elements += count;
    const on = bin === meta.zero_bin ? zeros : pixels;
    const from = axis.place(Math.max(columns.edges[bin], columns.min[row])) * size;
    const to = Math.max(axis.place(Math.min(columns.edges[bin + 1], columns.max[row])) * size, from + 0.01);
    for (let pixel = Math.min(size - 1, Math.floor(from)); pixel < Math.min(size, Math.ceil(to)); pixel++) {
      const covered = Math.min(to, pixel + 1) - Math.max(from, pixel);
      if (covered > 0) on[pixel] += (count * covered) / (to - from);
      else if (from >= size) on[size - 1] += count;
    }
  }
  level(pixels, barPixels(elements, size), axis.place(columns.min[row]) * size, axis.place(columns.max[row]) * size);
  const most = Math.max(...pixels) || Math.max(...zeros) || 1;
  return pixels.map((count, pixel) => Math.min(1, (count + zeros[pixel]) / most));
}

/**
 * Gives each bar one height; what lies outside of the elements' range stays empty.
 * @param {Float64Array} pixels @param {number} wide pixels of a bar @param {number} low @param {number} high
 */
function level(pixels, wide, low, high) {
  if (wide === 1) return;
  const end = Math.min(pixels.length, Math.max(Math.ceil(high), Math.floor(low) + 1));
  for (let start = 0; start < pixels.length; start += wide) {
    const [from, to] = [Math.max(start, Math.min(Math.floor(low), pixels.length - 1)), Math.min(start + wide, end)];
    if (to <= from) continue;
    const bar = pixels.subarray(from, to);
    bar.fill(bar.reduce((sum, count) => sum + count, 0) / bar.length);
  }
}
