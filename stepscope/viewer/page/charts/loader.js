/** Loads lines: what is seen at the width in which it is seen, and later only what is new. */
import { address } from "../address.js";
import { extended, lineOf } from "./line.js";

const KEPT_LINES = 600;
const FULL_AFTER_TAILS = 40;

/**
 * @typedef {import("./line.js").Line} Line
 * @typedef {{line: Line, range: string, tails: number}} Kept
 */

export class Loader {
  /** @param {import("../source.js").Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Map<string, Kept>} in the order of their use */
    this.kept = new Map();
  }

  /** What was loaded before, perhaps of another range. @param {string} run @param {string} name @param {number} rank */
  known(run, name, rank) {
    return this.kept.get(`${run} ${rank} ${name}`)?.line ?? null;
  }

  /**
   * @param {{run: string, name: string, rank: number}} of
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
    const parameters = { run, name, rank: rank || null };
    /** @type {Kept} */
    let now;
    if (onlyNew && kept && kept.range === wanted && kept.line.step.length && kept.tails < FULL_AFTER_TAILS && kept.line.step.length < 3 * width) {
      const first = kept.line.step[kept.line.step.length - 1];
      const tail = lineOf(await this.source.columns(address("series", { ...parameters, first, last: range?.[1], width }), { signal }));
      now = { line: extended(kept.line, tail), range: wanted, tails: kept.tails + 1 };
    } else {
      const answer = await this.source.columns(address("series", { ...parameters, first: range?.[0], last: range?.[1], width }), { signal });
      now = { line: lineOf(answer), range: wanted, tails: 0 };
    }
    this.kept.delete(key);
    this.kept.set(key, now);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= KEPT_LINES) break;
      this.kept.delete(oldest);
    }
    return now.line;
  }

  /** Whether every point of a series is here: zooming needs no more. @param {{run: string, name: string, rank: number}} of */
  hasAllPoints({ run, name, rank }) {
    const kept = this.kept.get(`${run} ${rank} ${name}`);
    return !!kept && kept.range.startsWith("null") && !kept.line.low;
  }

  /** All points of a series. @param {{run: string, name: string, rank: number}} of @returns {Promise<import("../columns.js").Columns>} */
  all({ run, name, rank }) {
    return this.source.columns(address("series", { run, name, rank: rank || null }));
  }
}
