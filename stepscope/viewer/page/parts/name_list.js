/** The names of a kind with a field to search them. */
import { address } from "../data/address.js";
import { element } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { RowList } from "./row_list.js";
import { nameText } from "../text/visible.js";

export class NameList {
  /**
   * @param {string} label
   * @param {(name: string) => void} choose
   */
  constructor(label, choose) {
    /** @type {string[]} */
    this.names = [];
    /** @type {string[]} */
    this.shown = [];
    this.current = "";
    this.list = new RowList({
      label,
      render: (place) => [element("span", { class: "name", title: this.shown[place].slice(0, 500) }, nameText(this.shown[place]))],
      choose: (place) => choose(this.shown[place]),
    });
    this.search = element("input", { type: "search", placeholder: `search ${label}`, "aria-label": `search ${label}`, input: () => this.filter() });
    this.element = element("div", { class: "name-list" }, this.search, this.list.element);
  }

  /** @param {string[]} names @param {string} current */
  update(names, current) {
    this.names = names;
    this.current = current;
    this.filter();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
    this.list.update(this.shown.length, this.shown.indexOf(this.current));
  }

  /** The names at a distance from the current one. @param {number} by */
  beside(by) {
    return this.shown[this.shown.indexOf(this.current) + by];
  }

  close() {
    this.list.close();
  }
}

/**
 * The names of a kind that chosen runs have of a rank, each once.
 * @param {import("../context.js").Context} context
 * @param {string[]} kinds
 * @param {import("./rank_chooser.js").RankChooser} ranks
 * @returns {Promise<{name: string, kind: string, runs: string[]}[]>}
 */
export async function namesOf(context, kinds, ranks) {
  const { source, signal } = context;
  const answers = await ofEachRun(context, ranks.runs(), ({ key }) => source.json(address("names", { run: key, rank: ranks.of(key) }), { signal }));
  /** @type {Map<string, {name: string, kind: string, runs: string[]}>} */
  const found = new Map();
  for (const { run, answer } of answers) {
    for (const { name, kind } of answer.names) {
      if (!kinds.includes(kind)) continue;
      /** @type {{name: string, kind: string, runs: string[]}} */
      const known = found.get(`${kind} ${name}`) ?? { name, kind, runs: [] };
      known.runs.push(run.key);
      found.set(`${kind} ${name}`, known);
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
