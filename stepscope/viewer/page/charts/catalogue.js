/** The names of all series, in groups, and which of them a search finds. */
import { address } from "../data/address.js";
import { jsonNumber } from "../data/columns.js";

/**
 * @typedef {{name: string, of: Map<string, {count: number, last_step: number, last_value: number | null}>}} Entry
 * @typedef {{key: string, title: string, entries: Entry[]}} Group ``key`` is the title, but of the pinned ones
 */

const BY_NAME = new Intl.Collator("en", { numeric: true });
/** No name has such a group, as one with the title of the pinned ones may. */
const PINNED = "/Pinned";
/** What a run records of its machine. */
export const SYSTEM = "system";
const LAST = ["diagnosis", SYSTEM];

export class Catalogue {
  /** @param {import("../data/source.js").Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
    /** @type {Entry[]} */
    this.sorted = [];
    /** @type {Map<string, string>} */
    this.positions = new Map();
  }

  /**
   * Brings the names of a rank of a run, or those that have changed since.
   * @param {import("../parts/rank_chooser.js").OfRank} of @param {AbortSignal} signal
   * @returns {Promise<boolean>} whether there are names that were not there before
   */
  async load({ key, rank, id }, signal) {
    const query = { run: key, rank, since: this.positions.get(id) };
    const { position, names } = await this.source.json(address("names", query), { signal });
    this.positions.set(id, position);
    let news = false;
    for (const { name, kind, count, last_step, last_value } of names) {
      if (kind !== "scalar") continue;
      let entry = this.entries.get(name);
      if (!entry) {
        entry = { name, of: new Map() };
        this.entries.set(name, entry);
      }
      news ||= !entry.of.has(id);
      entry.of.set(id, { count, last_step, last_value: jsonNumber(last_value) });
    }
    if (news) this.sorted = [...this.entries.values()].sort((a, b) => BY_NAME.compare(a.name, b.name));
    return news;
  }

  /**
   * The groups of what a search finds: the pinned ones first, then names without a group; last what is recorded for
   * the diagnosis, and of the machine.
   * @param {(name: string) => boolean} found
   * @param {Set<string>} pinned
   * @returns {Group[]}
   */
  groups(found, pinned) {
    /** @type {Map<string, Group>} */
    const groups = new Map();
    /** @type {Group} */
    const general = { key: "", title: "", entries: [] };
    const first = this.sorted.filter(({ name }) => pinned.has(name));
    if (first.length) groups.set(PINNED, { key: PINNED, title: PINNED.slice(1), entries: first });
    groups.set("", general);
    for (const entry of this.sorted) {
      if (!found(entry.name)) continue;
      const title = groupOf(entry.name);
      const group = groups.get(title);
      if (group) group.entries.push(entry);
      else groups.set(title, { key: title, title, entries: [entry] });
    }
    for (const title of LAST) {
      const last = groups.get(title);
      if (last && groups.delete(title)) groups.set(title, last);
    }
    return [...groups.values()].filter(({ entries }) => entries.length);
  }
}

/** The part before the first "/"; names without one are together. @param {string} name */
export function groupOf(name) {
  const end = name.indexOf("/");
  return end > 0 ? name.slice(0, end) : "";
}

/**
 * What a search finds: names with all of its words, or those that match its /expression/.
 * @param {string} search
 * @returns {{found: (name: string) => boolean, error: string}}
 */
export function matcher(search) {
  const expression = /^\/(.+?)\/?$/s.exec(search.trim());
  if (expression) {
    try {
      const pattern = new RegExp(expression[1], "i");
      return { found: (name) => pattern.test(name), error: "" };
    } catch (error) {
      return { found: () => false, error: `${search} is no regular expression: ${/** @type {Error} */ (error).message}` };
    }
  }
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return { found: (name) => words.every((word) => name.toLowerCase().includes(word)), error: "" };
}
