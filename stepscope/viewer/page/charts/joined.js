/** Lines with their own places on the x axis, as one table with one x column: what uPlot draws. */

/**
 * @typedef {(number | null | undefined)[]} Cells null is a gap, undefined no point of this line
 */

/**
 * The union of ascending places, and where each place of each list is in it.
 * @param {ArrayLike<number>[]} lists
 * @returns {{x: number[], at: Int32Array[]}}
 */
export function union(lists) {
  const at = lists.map((list) => new Int32Array(list.length));
  const next = lists.map(() => 0);
  /** @type {number[]} */
  const x = [];
  for (;;) {
    let least = Infinity;
    for (let which = 0; which < lists.length; which++) {
      if (next[which] < lists[which].length && lists[which][next[which]] < least) least = lists[which][next[which]];
    }
    if (least === Infinity) return { x, at };
    for (let which = 0; which < lists.length; which++) {
      if (next[which] < lists[which].length && lists[which][next[which]] === least) at[which][next[which]++] = x.length;
    }
    x.push(least);
  }
}

/**
 * @param {ArrayLike<number>} values
 * @param {Int32Array} at
 * @param {number} length
 * @param {boolean} positive leaves out what a logarithm does not have
 * @returns {Cells}
 */
export function cells(values, at, length, positive) {
  /** @type {Cells} */
  const column = new Array(length).fill(undefined);
  for (let index = 0; index < at.length; index++) {
    const value = values[index];
    const isDrawn = Number.isFinite(value) && (!positive || value > 0);
    column[at[index]] = isDrawn ? value : null;
  }
  return column;
}

/**
 * The places of points between two gaps: no line leads to them.
 * @param {Cells | ArrayLike<number | null | undefined>} column @returns {number[]}
 */
export function alone(column) {
  const found = [];
  let [length, last] = [0, -1];
  for (let place = 0; place <= column.length; place++) {
    const value = place < column.length ? column[place] : null;
    if (value === undefined) continue;
    if (value === null && length === 1) found.push(last);
    length = value === null ? 0 : length + 1;
    last = place;
  }
  return found;
}
