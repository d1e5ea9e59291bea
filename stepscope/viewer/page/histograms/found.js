/** The answer `histograms` of one run, and its text at one step. */
import { address } from "../data/address.js";
import { numberText, stepText } from "../text/format.js";

/**
 * @typedef {object} Found
 * @property {import("../context.js").ChosenRun} run
 * @property {Record<string, any>} meta
 * @property {Record<string, import("../data/columns.js").Column>} columns
 * @property {number} rows how many histograms
 * @property {number} wide how many bins
 */

/**
 * @param {import("../context.js").Context} context @param {import("../context.js").ChosenRun} run @param {string} name @param {number | null} rank
 * @param {number} [steps] @returns {Promise<Found>}
 */
export async function load(context, run, name, rank, steps = 200) {
  const asked = address("histograms", { run: run.key, name, rank: rank || null, steps: steps === 200 ? null : steps });
  const { meta, columns, shapes } = await context.source.columns(asked, { signal: context.signal });
  return { run, meta, columns, rows: columns.step.length, wide: shapes.bins[1] };
}

/** The histogram that covers a step, or the last one before it. @param {Found} found @param {number} step */
export function rowAt({ columns, rows }, step) {
  let row = 0;
  while (row + 1 < rows && columns.step[row + 1] <= step) row++;
  return row;
}

/** Counts and moments of a row, in words. @param {Found} found @param {number} row */
export function rowText({ columns }, row) {
  const of = (/** @type {string} */ name) => columns[name][row];
  const [first, last] = [of("step"), of("last_step")];
  const count = (/** @type {number} */ number) => number.toLocaleString("en");
  const when = last > first ? `steps ${stepText(first)} to ${stepText(last)}` : `step ${stepText(first)}`;
  const moments = Number.isNaN(of("mean")) ? "nothing finite" : `${numberText(of("min"))} to ${numberText(of("max"))}, mean ${numberText(of("mean"))} ± ${numberText(of("std"))}`;
  return `${when}: ${count(of("count"))} elements, ${count(of("nan"))} NaN, ${count(of("pos_inf") + of("neg_inf"))} infinite, ${count(of("zero"))} zero; ${moments}`;
}
