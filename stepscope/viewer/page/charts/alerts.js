/** The alerts of the chosen runs, as marks on the charts. */
import { address } from "../data/address.js";

const MOST_ELSEWHERE = 200;

/**
 * @typedef {{rank: number, name: string, step: number, time_ms: number, level: string, message: string}} Alert
 */

export class Alerts {
  /** @param {import("../context.js").Context} context */
  constructor(context) {
    this.context = context;
    /** @type {Map<string, Alert[]>} */
    this.byRun = new Map();
  }

  /** @param {string} run @param {AbortSignal} signal */
  async load(run, signal) {
    const { alerts } = await this.context.source.json(address("alerts", { run }), { signal });
    this.byRun.set(run, alerts);
  }

  /**
   * The alerts for the chart of a series: those about it, and where there are others.
   * @param {string} name @param {string} axis
   * @returns {import("./plot.js").AlertMark[]}
   */
  of(name, axis) {
    const marks = this.context.runs.flatMap(({ key, created_ms: start }) => (this.byRun.get(key) ?? []).slice(-MOST_ELSEWHERE).map((alert) => ({
      x: axis === "step" ? alert.step : (alert.time_ms - (axis === "relative" ? (start ?? 0) : 0)) / 1000,
      level: alert.level,
      text: alert.message,
      own: alert.name === name || (/[./]/.test(name) && alert.message.includes(name)),
    })));
    return marks.sort((a, b) => a.x - b.x);
  }
}
