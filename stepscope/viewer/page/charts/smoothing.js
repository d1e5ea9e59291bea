/**
 * Smooths as TensorBoard does: an exponential moving average that is divided by the sum of its weights, so that the
 * first values count fully (the bias correction of Adam). What is not finite stays as it is and does not count, and a
 * series of one value stays as it is.
 *
 * @param {ArrayLike<number>} values
 * @param {number} weight of the past, from 0 (none) to below 1
 * @returns {Float64Array}
 */
export function smoothed(values, weight) {
  const result = Float64Array.from(values);
  const first = result[0];
  if (!(weight > 0) || result.every((value) => value === first)) return result;
  let last = 0;
  let count = 0;
  for (let index = 0; index < result.length; index++) {
    const value = result[index];
    if (!Number.isFinite(value)) continue;
    last = last * weight + (1 - weight) * value;
    count += 1;
    result[index] = last / (1 - weight ** count);
  }
  return result;
}
