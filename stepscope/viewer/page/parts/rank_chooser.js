/** Chooses the rank whose artifacts a view shows: at first of each run its lowest. */
import { element } from "../dom.js";
import { runColour } from "../shell/theme.js";

const ALL = "all";
/** Colours and dashes tell no more lines apart. */
const MOST_LINES = 32;

/**
 * A chosen run and the rank of it that is shown, null for rank 0. The colour and the name are those of a run, or of each
 * rank where all are shown.
 * @typedef {import("../context.js").ChosenRun & {rank: number | null, id: string}} OfRank
 */

/**
 * What choosers call a rank. The lowest stands for that of each run.
 * @param {number} rank @param {import("../context.js").RunInfo[]} runs
 */
export function rankText(rank, runs) {
  const isLowest = runs.every(({ ranks }) => ranks.every((one) => one >= rank));
  return isLowest && !runs.every(({ ranks }) => ranks.includes(rank)) ? "lowest rank" : `rank ${rank}`;
}

export class RankChooser {
  /**
   * @param {import("../context.js").Context} context @param {(rank: number | string | null) => void} choose
   * @param {boolean} together whether all ranks can be chosen, for a view that asks for ``each``
   */
  constructor(context, choose, together = false) {
    this.context = context;
    this.together = together;
    const count = context.runs.reduce((sum, run) => sum + run.ranks.length, 0);
    const ranks = (this.ranks = [...new Set(context.runs.flatMap((run) => run.ranks))].sort((a, b) => a - b));
    this.select = element("select", { "aria-label": "rank", change: () => choose(this.select.value === String(ranks[0]) ? null : this.select.value) },
      ...ranks.map((rank) => element("option", { value: String(rank) }, rankText(rank, context.runs))),
      together && element("option", { value: ALL }, count > MOST_LINES ? `the first ${MOST_LINES} ranks` : "all ranks"));
    this.element = element("label", { hidden: ranks.length < 2 }, "of ", this.select);
    this.update();
  }

  /** Shows what the hash says. */
  update() {
    this.select.value = String(this.choice() ?? this.ranks[0] ?? 0);
  }

  /** What was chosen: a rank, "all", or null for the lowest rank of each run. */
  choice() {
    return this.together && this.context.params.get("rank") === ALL ? ALL : this.rank();
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

  /** What is shown of the chosen runs: one rank of each, or each rank. @returns {OfRank[]} */
  each() {
    if (this.choice() !== ALL) {
      return this.runs().map((run) => ({ ...run, rank: this.of(run.key), id: run.key, get colour() { return run.colour; } }));
    }
    const all = this.context.runs.flatMap((run) => run.ranks.map((rank) => ({ run, rank })));
    return all.slice(0, MOST_LINES).map(({ run, rank }, place) => ({
      ...run, rank: rank || null, id: `${run.key} ${rank}`, name: `rank ${rank} of ${run.name}`, place, get colour() { return runColour(place); },
    }));
  }

  /** The parameter for addresses about a run, which name no rank 0. @param {string} key */
  of(key) {
    return (this.rank() ?? this.context.runs.find((run) => run.key === key)?.ranks[0]) || null;
  }
}
