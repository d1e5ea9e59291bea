/** Asks for cells: what roll-ups say at once where a statistic is large, and then what all values say. */
import { address } from "../data/address.js";

const LARGE = 50_000;

/**
 * @typedef {{key: string, title: string, section: string, scale: string, tensors: number, points: number, histograms: boolean}} Statistic
 * @typedef {{run: string, scope: string, rank: number}} Of
 */

/** @param {import("../data/columns.js").Columns} answer @returns {import("./heat_map.js").Cells} */
export function cellsOf({ meta, columns }) {
  return {
    tensors: meta.tensors,
    names: meta.names,
    span: meta.span,
    lastStep: meta.last_step,
    behind: meta.behind,
    steps: /** @type {Float64Array} */ (columns.first_step),
    low: /** @type {Float32Array} */ (columns.low),
    high: /** @type {Float32Array} */ (columns.high),
    bits: /** @type {Uint8Array} */ (columns.bits),
  };
}

/** Yields the answers to one question, the last one the best. @param {import("../data/source.js").Source} source @param {AbortSignal} signal @param {Of} of @param {Statistic} statistic @param {[number, number] | null} range @param {number} width */
export async function* answers(source, signal, { run, scope, rank }, statistic, range, width) {
  const asked = { run, scope, rank: rank || null, statistic: statistic.key, first: range?.[0], last: range?.[1], width };
  const options = { signal };
  if (source.live && statistic.points > LARGE && !statistic.histograms) {
    const overview = await source.columns(address("layers", { ...asked, detail: "overview" }), options);
    yield cellsOf(overview);
    if (overview.meta.form === "values") return;
  }
  yield cellsOf(await source.columns(address("layers", asked), options));
}
