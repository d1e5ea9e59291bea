/** Runs side by side: configuration, metrics and causes in a table, parallel coordinates, and where two runs part. */
import { address } from "../data/address.js";
import { paced } from "../data/paced.js";
import { quoted } from "../charts/files.js";
import { STATISTICS, axesOf, byColumn, columnsOf, filterOf, isEqual } from "../compare/columns.js";
import { DRAGGED, axesAcross, parallelCoordinates } from "../compare/parallel.js";
import { partingOf } from "../compare/parting.js";
import { afterPause, download, element, shortened } from "../dom.js";
import { whenRead, whenReleased } from "../parts/released.js";
import { counted, durationText, numberText } from "../text/format.js";

const AT_ONCE = 6;
const MOST_OF_A_VERDICT = 300; // the style cuts it to the width of its column
const [ROWS_DRAWN_MS, CAUSES_DRAWN_MS] = [150, 800];

/** @typedef {import("../compare/columns.js").Row} Row @typedef {import("../compare/columns.js").Column} Column */

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  const view = new Comparison(root, context);
  return { refresh: (changed) => view.refresh(changed), state: () => view.restate(), close: () => view.close() };
}

class Comparison {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {Map<string, string>} why a run cannot be read */
    this.unreadable = new Map();
    /** @type {import("../compare/parallel.js").Brushes} */
    this.brushes = {};
    this.timer = 0;
    /** @type {Set<string>} runs that have more than is shown */
    this.changed = new Set();
    this.due = paced(() => this.again(), context.signal);
    const { params } = context;
    const typed = afterPause(() => (params.set({ filter: this.filter.value }, true), this.drawNow()), 200);
    this.filter = element("input", { type: "search", class: "wide", placeholder: "filter: lr > 0.01, status = finished", "aria-label": "filter runs", input: typed });
    this.statistic = element("select", { "aria-label": "value of metrics", change: () => this.setStatistic() },
      ...Object.entries(STATISTICS).map(([value, title]) => element("option", { value }, title)));
    this.at = element("input", { type: "number", min: "0", class: "step", "aria-label": "step of the values", change: () => this.setStatistic() });
    this.equal = element("input", { type: "checkbox", change: () => (params.set({ equal: this.equal.checked }, true), this.drawNow()) });
    this.count = element("span", { class: "note", role: "status" });
    this.plot = element("div", { class: "parallel-host" });
    this.broken = element("ul", { class: "unreadable-runs", hidden: true, "aria-label": "runs that cannot be read" });
    this.table = element("div", { class: "scrolled runs-table", tabIndex: 0, role: "region", "aria-label": "runs" });
    this.pair = [0, 1].map((place) => element("select", { "aria-label": place ? "second run" : "first run", change: () => this.part() }));
    this.parting = element("div", { class: "parting" });
    root.append(
      element("div", { class: "toolbar" }, this.filter, element("label", null, "metrics ", this.statistic), this.at,
        element("label", null, this.equal, " columns that are equal"), element("button", { click: () => this.csv() }, "CSV"), this.count),
      this.plot, this.table, this.broken,
      element("section", { class: "two-runs", "aria-label": "where two runs part" }, element("h2", null, "Where two runs part"),
        context.runs.length > 1 && element("div", { class: "toolbar" }, this.pair[0], " against ", this.pair[1]), this.parting),
    );
    this.restate();
  }

  /** Reads the hash. */
  restate() {
    const { params, runs } = this.context;
    this.filter.value = params.get("filter");
    this.statistic.value = params.get("statistic", "last");
    this.at.value = params.get("at");
    this.at.hidden = this.statistic.value !== "at";
    this.equal.checked = params.get("equal") === "1";
    const wanted = [params.get("a", runs[0]?.key), params.get("b", runs[1]?.key)];
    for (const [place, select] of this.pair.entries()) {
      select.replaceChildren(...runs.map(({ key, name }) => element("option", { value: key }, shortened(name, 60))));
      select.value = wanted[place] ?? "";
    }
    void this.load(runs.map(({ key }) => key));
    void this.part();
  }

  /** @param {Set<string>} changed */
  refresh(changed) {
    for (const key of changed) this.changed.add(key);
    if (this.changed.size) this.due();
  }

  /** Asks again: it is the whole of what a run holds that is compared. */
  async again() {
    const keys = [...this.changed];
    this.changed.clear();
    await Promise.all([this.load(keys), this.pair.some(({ value }) => keys.includes(value)) && this.part(true)]);
  }

  close() {
    clearTimeout(this.timer);
  }

  setStatistic() {
    this.context.params.set({ statistic: this.statistic.value === "last" ? "" : this.statistic.value, at: this.at.value });
    this.at.hidden = this.statistic.value !== "at";
    if (this.statistic.value === "at") void this.load(this.context.runs.map(({ key }) => key));
    this.drawNow();
  }

  /** Asks for a few runs at a time, so that the first rows are there at once; then for the causes. @param {string[]} keys */
  async load(keys) {
    const { source, signal } = this.context;
    const at = this.statistic.value === "at" && source.live ? this.at.value : "";
    const waiting = [...keys];
    const next = async () => {
      for (let key = waiting.shift(); key && !signal.aborted; key = waiting.shift()) {
        try {
          const [row] = (await source.json(address("compare", { runs: key, at }), { signal })).runs;
          const name = this.context.runs.find((run) => run.key === key)?.name; // which tells it apart
          this.rows.set(key, { ...row, name: name ?? row.name, causes: this.rows.get(key)?.causes, observed: this.rows.get(key)?.observed });
          this.unreadable.delete(key);
        } catch (error) {
          if (signal.aborted) return;
          this.context.fail(error);
          this.unreadable.set(key, error instanceof Error ? error.message : String(error));
        }
        this.drawSoon(ROWS_DRAWN_MS);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    for (const key of keys) {
      if (signal.aborted) return;
      const row = this.rows.get(key);
      const found = await source.json(address("causes", { run: key }), { signal }).catch(() => null);
      if (row && found) Object.assign(row, { causes: found.causes, observed: found.observed });
      this.drawSoon(CAUSES_DRAWN_MS);
    }
  }

  /** What comes in a stream is drawn now and then, so that the page stays quick. @param {number} ms */
  drawSoon(ms) {
    this.timer ||= window.setTimeout(() => this.drawNow(), ms);
  }

  drawNow() {
    clearTimeout(this.timer);
    this.timer = 0;
    const { params, runs, signal } = this.context;
    if (signal.aborted) return;
    if (this.plot.querySelector(`.${DRAGGED}`)) {
      this.drawSoon(ROWS_DRAWN_MS);
      return;
    }
    const rows = runs.flatMap(({ key }) => this.rows.get(key) ?? []);
    const all = columnsOf(rows, this.statistic.value);
    const { passes, unknown } = filterOf(this.filter.value, all);
    const columns = all.filter((column) => column.id === "run" || this.equal.checked || !isEqual(column, rows));
    const width = Math.max(480, this.plot.clientWidth);
    const axes = axesOf(columns, rows, axesAcross(width));
    const inBrushes = (/** @type {Row} */ row) => axes.every((column) => {
      const range = this.brushes[column.id];
      const value = Number(column.value(row));
      return !range || (value >= range[0] && value <= range[1]);
    });
    const shown = rows.filter((row) => passes(row) && inBrushes(row));
    const sorted = columns.find(({ id }) => id === params.get("sort"));
    if (sorted) shown.sort(byColumn(sorted, params.get("order") === "down"));
    this.count.textContent = `${counted(shown.length, "run")} of ${runs.length}${this.missing(rows.length)}${unknown.length ? `; no column is called ${unknown.join(", ").slice(0, 80)}` : ""}`;
    this.plot.replaceChildren();
    if (axes.length > 1 && rows.length > 1) {
      const lines = rows.map((row) => ({ key: row.key, name: row.name, place: runs.findIndex(({ key }) => key === row.key), passes: shown.includes(row) }));
      const numbers = axes.map((column) => ({ id: column.id, title: column.title, values: rows.map((row) => { const value = column.value(row); return typeof value === "number" ? value : null; }) })); // prettier-ignore
      this.plot.append(parallelCoordinates(numbers, lines, this.brushes, (id, range) => this.brush(id, range), width));
    }
    this.shown = { rows: shown, columns };
    this.drawTable(shown, columns);
  }

  /** Says which runs have no row, and shows why. @param {number} there the rows */
  missing(there) {
    const broken = this.context.runs.filter(({ key }) => this.unreadable.has(key) && !this.rows.has(key));
    const reading = this.context.runs.length - there - broken.length;
    this.broken.hidden = !broken.length;
    this.broken.replaceChildren(...broken.map(({ key, name }) => element("li", null, element("strong", null, shortened(name, 48)), `: ${this.unreadable.get(key)}`)));
    return `${reading ? `, ${reading} being read` : ""}${broken.length ? `, ${broken.length} cannot be read` : ""}`;
  }

  /** @param {string} id @param {[number, number] | null} range */
  brush(id, range) {
    if (range) this.brushes[id] = range;
    else delete this.brushes[id];
    this.drawNow();
  }

  /** @param {Row[]} rows @param {Column[]} columns */
  drawTable(rows, columns) {
    whenReleased(this.table, () => this.drawTableNow(rows, columns));
  }

  /** @param {Row[]} rows @param {Column[]} columns */
  drawTableNow(rows, columns) {
    const { params, runs } = this.context;
    const [sort, order] = [params.get("sort"), params.get("order")];
    const scrolled = this.table.scrollLeft;
    const head = element("tr", null, ...columns.map(({ id, title, kind }) => {
      const cell = element("th", { scope: "col", class: kind, "aria-sort": sort === id ? (order === "down" ? "descending" : "ascending") : "none" },
        element("button", { title, "data-column": id, click: () => this.sortBy(id) }, shortened(title, 32), sort === id && (order === "down" ? " ▼" : " ▲")));
      return cell;
    }));
    const body = rows.map((row) => {
      const run = runs.find(({ key }) => key === row.key);
      return element("tr", null, ...columns.map((column) => this.cell(column, row, run)));
    });
    this.table.replaceChildren(element("table", null, element("thead", null, head), element("tbody", null, ...body)));
    this.table.scrollLeft = scrolled;
  }

  /** @param {Column} column @param {Row} row @param {import("../context.js").ChosenRun | undefined} run */
  cell(column, row, run) {
    const value = column.value(row);
    if (column.id === "run") {
      const link = element("a", { href: this.context.href("run", { runs: row.key }), title: run?.folder }, shortened(row.name, 48));
      return element("th", { scope: "row" }, element("span", { class: `swatch run-${(run?.place ?? 0) % 8}` }), " ", link);
    }
    if (column.id === "verdict" && row.verdict) return element("td", { class: `verdict-cell ${row.state}`, title: row.verdict }, element("a", { href: this.context.href("verdict", { runs: row.key }) }, row.verdict.slice(0, MOST_OF_A_VERDICT)));
    if (column.id === "causes") return element("td", { title: row.causes?.map(({ title }) => title).join("; ") }, row.causes === undefined ? "…" : row.causes.slice(0, 3).map(({ code, confidence }) => `${code} ${Math.round(confidence * 100)} %`).join(", ") || (row.observed || row.verdict ? "none found" : "not observed"));
    if (column.id === "seconds") return element("td", { class: "number" }, typeof value === "number" ? durationText(value) : "–");
    if (typeof value === "number") return element("td", { class: "number", title: String(value) }, numberText(value));
    return element("td", { title: value === undefined || value === null ? "" : String(value) }, value === undefined || value === null || value === "" ? "–" : shortened(String(value), 40));
  }

  /** @param {string} id */
  sortBy(id) {
    const { params } = this.context;
    const down = params.get("sort") === id && params.get("order") !== "down";
    params.set({ sort: id, order: down ? "down" : "" });
    this.drawNow();
  }

  csv() {
    const { rows, columns } = this.shown ?? { rows: [], columns: [] };
    const lines = [columns.map(({ title }) => quoted(title)), ...rows.map((row) => columns.map((column) => quoted(String(column.value(row) ?? ""))))];
    download("runs.csv", new Blob([lines.map((cells) => `${cells.join(",")}\n`).join("")], { type: "text/csv" }));
  }

  /** @param {boolean} [again] whether the same two runs are compared, with what is new */
  async part(again = false) {
    const { runs, params } = this.context;
    const [first, second] = this.pair.map((select) => runs.find(({ key }) => key === select.value));
    if (!first || !second || first === second) {
      if (!again) this.parting.replaceChildren(element("p", { class: "note" }, runs.length < 2 ? "Choose two runs or more above (r)." : "Choose two different runs."));
      return;
    }
    if (first !== runs[0] || second !== runs[1]) params.set({ a: first.key, b: second.key }, true);
    if (!again) this.parting.replaceChildren(element("p", { class: "note" }, "Comparing…"));
    const show = (/** @type {Node} */ found) => {
      const isAsked = this.pair[0].value === first.key && this.pair[1].value === second.key;
      if (!isAsked || this.context.signal.aborted || this.parting.firstChild?.isEqualNode(found)) return;
      if (again) whenRead(this.parting, () => this.parting.replaceChildren(found));
      else this.parting.replaceChildren(found);
    };
    try {
      show(await partingOf(this.context, first, second));
    } catch (error) {
      show(element("p", { class: "unreadable" }, error instanceof Error ? error.message : String(error)));
    }
  }
}
