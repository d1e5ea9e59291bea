/** Loads lines: what is seen at the width in which it is seen, and later only what is new. */
import { address } from "../data/address.js";
import { extended, lineOf } from "./line.js";

const MOST_WIDTH = 20_000;
const KEPT_LINES = 600;
/** With more, the server makes ranges of them. */
const MOST_POINTS_A_PIXEL = 3;

/**
 * @typedef {import("./line.js").Line} Line
 * @typedef {{line: Line, range: string, cursor: string | undefined}} Kept
 */

export class Loader {
  /** @param {import("../data/source.js").Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Map<string, Kept>} in the order of their use */
    this.kept = new Map();
  }

  /** What was loaded before, perhaps of another range. @param {string} run @param {string} name @param {number | null} rank */
  known(run, name, rank) {
    return this.kept.get(`${run} ${rank} ${name}`)?.line ?? null;
  }

  /**
   * @param {{run: string, name: string, rank: number | null}} of
   * @param {[first: number, last: number] | null} range of steps
   * @param {number} width how many points can be told apart
   * @param {boolean} onlyNew whether what is known of this range is extended
   * @param {AbortSignal} signal
   * @returns {Promise<Line>}
   */
  async load({ run, name, rank }, range, width, onlyNew, signal) {
    const key = `${run} ${rank} ${name}`;
    const kept = this.kept.get(key);
    const wanted = `${range} ${width}`;
    const parameters = { run, name, rank };
    const since = onlyNew && kept?.range === wanted && kept.line.step.length < MOST_POINTS_A_PIXEL * width ? kept.cursor : undefined;
    const answer = await this.source.columns(address("series", { ...parameters, first: range?.[0], last: range?.[1], width, since }), { signal });
    const line = lineOf(answer);
    const only = since && kept && answer.meta.whole === false;
    const now = { line: only ? extended(kept.line, line) : line, range: wanted, cursor: answer.meta.cursor };
    this.kept.delete(key);
    this.kept.set(key, now);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= KEPT_LINES) break;
      this.kept.delete(oldest);
    }
    return now.line;
  }

  /** Whether every point of a series is here: zooming needs no more. @param {{run: string, name: string, rank: number | null}} of */
  hasAllPoints({ run, name, rank }) {
    const kept = this.kept.get(`${run} ${rank} ${name}`);
    return !!kept && kept.range.startsWith("null") && !kept.line.low;
  }

  /** A series as exactly as one answer can have it. @param {{run: string, name: string, rank: number | null}} of @returns {Promise<import("../data/columns.js").Columns>} */
  all({ run, name, rank }) {
    return this.source.columns(address("series", { run, name, rank, width: MOST_WIDTH }));
  }
}
