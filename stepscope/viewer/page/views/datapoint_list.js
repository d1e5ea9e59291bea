/** What is known of an epoch's datapoints: which there are, what is right and wrong, what has changed beside another. */
import { address } from "../data/address.js";
import { jsonNumber } from "../data/columns.js";
import { element } from "../dom.js";
import { numberText } from "../text/format.js";

/** @type {[string, string][]} */
export const SHOWN = [["", "all"], ["wrong", "wrong"], ["right", "right"], ["unjudged", "not judged"], ["failed", "with an error"]];

/**
 * @typedef {import("./datapoint_epochs.js").Epoch} Epoch
 * @typedef {{correct: boolean | null, label: number | null, prediction: number | null, loss: number | null, margin: number | null, failed: string[]}} Verdict
 * @typedef {{show: string, label: string, debugger: string, sort: string, search: string}} Filter
 */

export class EpochContents {
  /** @param {import("../context.js").Context} context @param {Epoch} epoch @param {Epoch | null} beside */
  constructor({ source, signal }, epoch, beside) {
    this.source = source;
    this.signal = signal;
    this.epoch = epoch;
    this.beside = beside;
    /** @type {number[]} */
    this.datapoints = [];
    /** @type {Record<string, Set<number> | null>} */
    this.ofDebugger = {};
    /** @type {Verdict[]} */
    this.verdicts = [];
    /** @type {Map<number, number>} the largest finite change of each datapoint */
    this.changed = new Map();
    this.said = "";
    this.reading = true;
  }

  sides() {
    return this.beside ? [this.epoch, this.beside] : [this.epoch];
  }

  async readList() {
    const found = await this.source.json(address("datapoints", { run: this.epoch.run.key, epoch: this.epoch.key }), { signal: this.signal });
    this.datapoints = found.datapoints;
    this.ofDebugger = Object.fromEntries(Object.entries(found.of_debugger).map(([name, places]) => [name, places && new Set(places)]));
    this.said = ": reading which are wrong …";
  }

  async readVerdicts() {
    try {
      const found = await this.source.json(address("judged", { run: this.epoch.run.key, epoch: this.epoch.key }), { signal: this.signal });
      this.verdicts = (found.correct ?? []).map((/** @type {any} */ correct, /** @type {number} */ at) => ({
        correct, label: found.label[at], prediction: found.prediction[at], loss: jsonNumber(found.loss[at]), margin: jsonNumber(found.margin[at]), failed: found.failed[at],
      })); // prettier-ignore
      const judged = this.verdicts.filter(({ correct }) => correct !== null);
      const wrong = judged.filter(({ correct }) => !correct).length;
      this.said = judged.length ? `, ${wrong.toLocaleString("en")} of ${judged.length.toLocaleString("en")} judged are wrong` : ", none says whether it is right (keep outputs and labels)";
      if (this.beside) this.said += "; comparing …";
      if (found.errors.length) this.said += `. ${found.errors.length} pages cannot be opened: ${found.errors[0]}`;
    } catch (error) {
      if (this.signal.aborted) return;
      this.said = `, which are wrong is not known: ${error instanceof Error ? error.message : error}`;
    }
    this.reading = false;
  }

  async readChanges() {
    if (!this.beside) return;
    const [a, b] = this.sides();
    try {
      const changes = await this.source.json(address("changes", { a: a.run.key, a_epoch: a.key, b: b.run.key, b_epoch: b.key }), { signal: this.signal });
      this.changed = new Map(changes.largest);
      this.said = this.said.replace("; comparing …", "");
    } catch (error) {
      if (this.signal.aborted) return;
      this.said = this.said.replace("comparing …", `what changed is not known: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** @param {Epoch} side @param {number} idx */
  datapoint(side, idx) {
    return this.source.json(address("datapoint", { run: side.run.key, epoch: side.key, idx }), { signal: this.signal });
  }

  /** What differs in one datapoint. @param {number} idx */
  changesOf(idx) {
    const [a, b] = this.sides();
    return this.source.json(address("changes", { a: a.run.key, a_epoch: a.key, b: b.run.key, b_epoch: b.key, idx }), { signal: this.signal });
  }

  /** The labels and debuggers that one can filter by. @param {{label: HTMLSelectElement, debugger: HTMLSelectElement}} choices */
  options(choices) {
    const labels = [...new Set(this.verdicts.map(({ label }) => label))].filter((label) => label !== null).sort((a, b) => Number(a) - Number(b));
    fill(choices.label, "any label", labels.slice(0, 2000).map((label) => [String(label), `label ${label}`]));
    fill(choices.debugger, "all", Object.keys(this.ofDebugger).map((name) => [name, name]));
    choices.label.hidden = !labels.length;
  }

  /** The places of the datapoints that a filter leaves, in its order. @param {Filter} filter */
  filtered(filter) {
    const having = filter.debugger ? this.ofDebugger[filter.debugger] : null;
    const found = [];
    for (let at = 0; at < this.datapoints.length; at++) {
      const verdict = this.verdicts[at];
      if (having && !having.has(at)) continue;
      if (filter.search && !String(this.datapoints[at]).startsWith(filter.search.trim())) continue;
      if (filter.label && String(verdict?.label) !== filter.label) continue;
      if (filter.show && !isShown(filter.show, verdict)) continue;
      found.push(at);
    }
    const by = this.sortKey(filter.sort);
    if (by) found.sort((a, b) => by(b) - by(a) || a - b);
    return found;
  }

  /** @param {string} sort @returns {((at: number) => number) | null} NaN first, unknown last */
  sortKey(sort) {
    if (sort === "changed") return (at) => this.changed.get(this.datapoints[at]) ?? -1;
    if (sort !== "loss" && sort !== "margin") return null;
    return (at) => {
      const value = this.verdicts[at]?.[sort] ?? null;
      return value === null ? -Number.MAX_VALUE : Number.isNaN(value) ? Number.MAX_VALUE : Math.max(-1e300, Math.min(1e300, value));
    };
  }
}

/** @param {string} show @param {Verdict | undefined} verdict */
function isShown(show, verdict) {
  if (show === "failed") return Boolean(verdict?.failed.length);
  if (show === "unjudged") return !verdict || verdict.correct === null;
  return verdict?.correct === (show === "right");
}

/** @param {HTMLSelectElement} select @param {string} none @param {string[][]} options */
function fill(select, none, options) {
  const wanted = options.map(([value]) => value).join("\n");
  if (select.dataset.options === wanted) return;
  select.dataset.options = wanted;
  select.replaceChildren(element("option", { value: "" }, none), ...options.map(([value, text]) => element("option", { value }, text)));
}

/** A row of the list. @param {EpochContents} contents @param {number} at @returns {import("../dom.js").Child[]} */
export function rowOf(contents, at) {
  const verdict = contents.verdicts[at];
  const changed = contents.changed.get(contents.datapoints[at]);
  const mark = verdict?.correct === true ? "✓" : verdict?.correct === false ? "✗" : "";
  return [
    element("span", { class: "idx" }, contents.datapoints[at]),
    element("span", { class: verdict?.correct === false ? "bad" : "good", "aria-label": mark && (verdict.correct ? "right" : "wrong") }, mark),
    element("span", null, verdict && verdict.label !== null ? `${verdict.label} → ${verdict.prediction ?? "NaN"}` : ""),
    element("span", { class: "note" }, verdict && verdict.loss !== null ? `loss ${short(verdict.loss)}` : ""),
    element("span", { class: "note" }, changed === undefined ? "" : `Δ ${short(changed)}`),
    element("span", { class: "bad" }, verdict?.failed.length ? "error" : ""),
  ];
}

/** @param {number} value */
export const short = (value) => (Number.isFinite(value) ? numberText(Number(value.toPrecision(3))) : numberText(value));
