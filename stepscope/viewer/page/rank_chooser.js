/** Chooses the rank whose artifacts a view shows: at first of each run its lowest. */
import { element } from "./dom.js";

/**
 * What choosers call a rank. The lowest stands for that of each run.
 * @param {number} rank @param {import("./context.js").RunInfo[]} runs
 */
export function rankText(rank, runs) {
  const isLowest = runs.every(({ ranks }) => ranks.every((one) => one >= rank));
  return isLowest && !runs.every(({ ranks }) => ranks.includes(rank)) ? "lowest rank" : `rank ${rank}`;
}

export class RankChooser {
  /** @param {import("./context.js").Context} context @param {(rank: number | null) => void} choose */
  constructor(context, choose) {
    this.context = context;
    const ranks = (this.ranks = [...new Set(context.runs.flatMap((run) => run.ranks))].sort((a, b) => a - b));
    this.select = element("select", { "aria-label": "rank", change: () => choose(this.select.value === String(ranks[0]) ? null : Number(this.select.value)) },
      ...ranks.map((rank) => element("option", { value: String(rank) }, rankText(rank, context.runs))));
    this.element = element("label", { hidden: ranks.length < 2 }, "of ", this.select);
    this.update();
  }

  /** Shows what the hash says. */
  update() {
    this.select.value = String(this.rank() ?? this.ranks[0] ?? 0);
  }

  /** The rank that was chosen; null for the lowest of each run. */
  rank() {
    const chosen = this.ranks.indexOf(Number(this.context.params.get("rank") || "NaN"));
    return chosen > 0 ? this.ranks[chosen] : null;
  }

  /** The chosen runs that have it. */
  runs() {
    const rank = this.rank();
    return rank === null ? this.context.runs : this.context.runs.filter(({ ranks }) => ranks.includes(rank));
  }

  /** The parameter for addresses about a run, which name no rank 0. @param {string} key */
  of(key) {
    return (this.rank() ?? this.context.runs.find((run) => run.key === key)?.ranks[0]) || null;
  }
}
