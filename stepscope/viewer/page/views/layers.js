/** A heat map of layers over steps, of any statistic that a run has of its tensors. */
import { address } from "../data/address.js";
import { paced } from "../data/paced.js";
import { matcher } from "../charts/catalogue.js";
import { afterPause, element, shortened } from "../dom.js";
import { counted, numberText, stepText } from "../text/format.js";
import { Details } from "../layers/details.js";
import { HeatMap } from "../layers/heat_map.js";
import { legend } from "../layers/legend.js";
import { answers } from "../layers/loading.js";
import { keepFocus } from "../parts/released.js";
import { NAN, NEGATIVE, POSITIVE, UNKNOWN, scaleOf } from "../layers/scale.js";

/** The share of the steps at the end of a run that, left unmeasured, is said. */
const UNMEASURED_END = 0.1;
const SCALES = [["", "scale: as fits"], ["log", "logarithmic"], ["linear", "linear"]];

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  const layers = new Layers(root, context);
  return {
    refresh: (changed) => layers.refresh(changed),
    state: () => void layers.read(),
    recolour: () => (layers.draw(), layers.details.draw()),
    close: () => layers.close(),
  };
}

/** @param {string} label @param {string} value @param {string[][]} choices @param {(value: string) => void} chosen */
function chooser(label, value, choices, chosen) {
  const select = element("select", { "aria-label": label }, ...choices.map(([key, text]) => element("option", { value: key, selected: key === value }, text)));
  select.addEventListener("change", () => chosen(select.value));
  return select;
}

class Layers {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    this.tools = element("div", { class: "tools" });
    this.note = element("p", { class: "note" });
    this.says = element("p", { class: "says-cell" });
    this.legend = element("div");
    this.search = element("input", { type: "search", placeholder: "search layers", "aria-label": "search for layers" });
    this.search.addEventListener("input", () => (context.params.set({ search: this.search.value }, true), this.draw()));
    this.map = new HeatMap({
      cursor: (cursor) => this.point(cursor),
      open: (cursor) => this.open(cursor),
      zoom: (range) => this.zoom(range),
    });
    this.details = new Details(context, () => context.params.set({ row: null, step: null }, true), () => this.due());
    this.box = element("div", { class: "map-box" }, this.map.element);
    root.append(this.tools, this.note, this.legend, this.box, this.says, this.details.element);
    this.help = "Arrow keys move, Enter opens a layer, + and − zoom, 0 shows all. Drag to choose steps.";
    /** @type {import("../layers/loading.js").Statistic[]} */
    this.statistics = [];
    /** @type {import("../layers/heat_map.js").Cells | null} */
    this.cells = null;
    this.listing = 0;
    this.listed = "";
    this.toolsShown = "";
    this.lastStep = 0;
    this.shown = "";
    /** Whether the address may name another row than the one that is open. */
    this.moved = true;
    this.asked = 0;
    this.due = paced(() => this.again(), context.signal);
    this.loading = new AbortController();
    context.signal.addEventListener("abort", () => this.loading.abort(), { once: true });
    this.loadSoon = afterPause(() => void this.load(), 60);
    this.sayCell = afterPause((/** @type {string} */ text) => context.announce(text), 250);
    this.observer = new ResizeObserver(() => {
      const width = this.box.clientWidth;
      if (!width || width === this.map.width) return;
      this.map.width = width;
      this.draw();
      this.loadSoon();
    });
    this.observer.observe(this.box);
    void this.read();
  }

  async read() {
    const { params, runs, fail, signal } = this.context;
    this.moved = true;
    this.run = runs.find(({ key }) => key === params.get("run")) ?? runs[0];
    this.rank = Number(params.get("rank", String(Math.min(...(this.run?.ranks.length ? this.run.ranks : [0]))))) || 0;
    this.scope = params.get("scope");
    const zoom = params.get("zoom").split(",").map(Number);
    this.zoomed = /** @type {[number, number] | null} */ (zoom.length === 2 && zoom[0] < zoom[1] ? zoom : null);
    this.search.value = params.get("search");
    try {
      await this.list();
    } catch (error) {
      if (signal.aborted) return;
      fail(error);
      this.listed = "";
      this.statistics = [];
      this.showTools([]); // another run can be chosen
    }
  }

  /** Asks which statistics there are, then for the cells of the chosen one. */
  async list() {
    const { context, run, rank } = this;
    const turn = ++this.listing;
    const of = `${run?.key} ${this.scope} ${rank}`;
    const { statistics, scopes, last_step, behind } = await context.source.json(address("layers", { run: run?.key, scope: this.scope, rank: rank || null }), { signal: context.signal });
    if (turn !== this.listing) return; // another run was chosen
    if (!this.scope && !scopes.includes("") && scopes.length && !statistics.length) {
      this.scope = scopes[0];
      await this.list();
      return;
    }
    if (of !== this.listed) this.cells = null;
    this.listed = of;
    this.statistics = statistics;
    this.lastStep = last_step ?? 0;
    const wanted = context.params.get("statistic");
    this.statistic = this.statistics.find(({ key }) => key === wanted) ?? this.fitting();
    this.showTools(scopes);
    if (behind) this.due();
    await this.load();
  }

  /** The first statistic that has the row that the address names. */
  fitting() {
    const row = this.context.params.get("row");
    const last = row.slice(row.lastIndexOf(".") + 1);
    const ofModules = row && !["weight", "bias"].includes(last);
    const found = ofModules && this.statistics.find(({ key }) => key.startsWith("activation_") || key.startsWith("diagnosis/output"));
    return found || this.statistics[0];
  }

  /** @param {string[]} scopes */
  showTools(scopes) {
    const { context, run, rank, statistic } = this;
    // Of a training that runs this is asked again and again: a list that is open would close where it is made anew.
    const state = JSON.stringify([run?.key, run?.ranks, rank, this.scope, scopes, statistic?.key, this.statistics.map(({ key, tensors }) => [key, tensors]), context.params.get("scale"), context.params.get("of")]);
    if (state === this.toolsShown) return;
    this.toolsShown = state;
    const change = (/** @type {Record<string, string | null>} */ changes) => (context.params.set(changes), void this.read());
    /** @type {Map<string, HTMLOptGroupElement>} */
    const sections = new Map();
    for (const { key, title, section, tensors } of this.statistics) {
      const group = sections.get(section) ?? element("optgroup", { label: section });
      sections.set(section, group);
      group.append(element("option", { value: key, selected: key === statistic?.key, title }, `${key.includes(":") ? shortened(title, 60) : shortened(key, 60)} (${tensors})`));
    }
    const select = element("select", { "aria-label": "statistic", class: "statistic" }, ...sections.values());
    select.addEventListener("change", () => change({ statistic: select.value }));
    const ranks = run?.ranks ?? [];
    keepFocus(this.tools, () => this.tools.replaceChildren(
      context.runs.length > 1 ? chooser("run", run?.key ?? "", context.runs.map(({ key, name }) => [key, shortened(name, 40)]), (key) => change({ run: key, scope: null, rank: null })) : "",
      scopes.length > 1 ? chooser("session", this.scope ?? "", scopes.map((one) => [one, one || "no scope"]), (scope) => change({ scope })) : "",
      ranks.length > 1 ? chooser("rank", String(rank), ranks.map((one) => [String(one), `rank ${one}`]), (one) => change({ rank: one === "0" ? null : one })) : "",
      this.statistics.length ? select : "",
      chooser("scale", context.params.get("scale"), SCALES, (scale) => (context.params.set({ scale }), this.draw())),
      chooser("of joined steps", context.params.get("of"), [["", "largest of joined steps"], ["low", "smallest of joined steps"]], (of) => (context.params.set({ of }), this.draw())),
      this.search, element("button", { click: () => this.zoom(null) }, "All steps")));
  }

  async load() {
    const { context, statistic, run } = this;
    const mine = ++this.asked;
    // What nobody waits for any more gives its turn to what is asked for now.
    this.loading.abort();
    this.loading = new AbortController();
    this.note.textContent = "";
    if (!this.listed) return; // whether it has some is not known
    if (!statistic || !run) {
      this.note.textContent = "This run has no statistics of layers. stepscope.watch(model, optimizer, run=run) records the norms of all gradients; weights=True, updates=True and activations=True record more.";
      this.cells = null;
      this.draw();
      return;
    }
    if (this.shown !== `${this.listed} ${statistic.key}`) this.note.textContent = `Reading ${counted(statistic.points, statistic.histograms ? "histogram" : "value")}…`;
    try {
      const of = { run: run.key, scope: this.scope ?? "", rank: this.rank ?? 0 };
      for await (const cells of answers(context.source, this.loading.signal, of, statistic, this.zoomed ?? null, Math.floor(this.map.plotWidth))) {
        if (mine !== this.asked || context.signal.aborted) return;
        this.take(cells);
      }
      if (mine === this.asked) this.note.textContent = statistic.title + this.until();
    } catch (error) {
      if (!context.signal.aborted && mine === this.asked) context.fail(error);
    }
  }

  /** Where a run goes on long after this was measured last, such as when its cost was limited: until when. */
  until() {
    const [measured, all] = [this.cells?.lastStep ?? 0, this.lastStep];
    return measured < all * (1 - UNMEASURED_END) ? `; measured up to step ${stepText(measured)} of ${stepText(all)}` : "";
  }

  /** @param {import("../layers/heat_map.js").Cells} cells */
  take(cells) {
    const looks = this.moved || this.shown !== `${this.listed} ${this.statistic?.key}`;
    this.moved = false;
    this.shown = `${this.listed} ${this.statistic?.key}`;
    this.cells = cells;
    this.draw();
    if (cells.behind) this.due();
    const [row, step] = [this.context.params.get("row"), Number(this.context.params.get("step") || "NaN")];
    if (!looks) return;
    const named = row ? cells.tensors.findIndex((tensor) => tensor === row || tensor.startsWith(`${row}.`)) : -1;
    const place = this.map.rows.indexOf(named);
    const at = Number.isNaN(step) ? cells.lastStep : step;
    if (named < 0) this.details.clear(); // it names none, or the run before had it
    else if (place < 0) this.showDetails(cells.tensors[named], cells.names[named], at); // the search leaves it out
    else this.open({ row: place, step: at });
  }

  draw() {
    const { cells, context, map, statistic } = this;
    map.element.hidden = !cells;
    this.legend.replaceChildren();
    if (!cells || !statistic) return;
    const { found } = matcher(this.search.value);
    const rows = cells.tensors.map((_, row) => row).filter((row) => found(cells.tensors[row]));
    // The cursor stays at its layer, wherever that is among those that are found, or that came meanwhile.
    const held = map.at()?.tensor;
    const row = rows.findIndex((one) => cells.tensors[one] === held);
    if (map.cursor) map.cursor = row < 0 ? null : { ...map.cursor, row };
    map.which = context.params.get("of") === "low" ? "low" : "high";
    const scale = scaleOf(context.params.get("scale") || statistic.scale, cells[map.which]);
    this.legend.replaceChildren(legend(scale, cells.bits));
    map.draw(cells, rows, this.zoomed ?? [0, Math.max(1, cells.lastStep)], scale);
    map.element.setAttribute("aria-label", `heat map of ${statistic.title}: ${rows.length} of ${counted(cells.tensors.length, "layer")} over steps ${map.range.join(" to ")}, ${scale.kind} scale from ${numberText(scale.low)} to ${numberText(scale.high)}. ${this.help}`);
    this.say();
  }

  /** @param {import("../layers/heat_map.js").Cursor} cursor */
  point(cursor) {
    this.map.cursor = cursor;
    this.map.mark();
    const text = this.say();
    if (document.activeElement === this.map.element) {
      this.map.reveal();
      this.sayCell(text);
    }
  }

  say() {
    const at = this.map.at();
    let text = this.help;
    if (at) {
      const kinds = [[NAN, "NaN"], [POSITIVE, "+∞"], [NEGATIVE, "−∞"], [UNKNOWN, "NaN or ∞"]].filter(([bit]) => at.bits & Number(bit)).map(([, word]) => word);
      const values = at.bits === 0 ? "not measured" : Number.isNaN(at.high) ? "" : at.low === at.high ? numberText(at.high) : `${numberText(at.low)} to ${numberText(at.high)}`;
      const when = at.last > at.step ? `steps ${stepText(at.step)} to ${stepText(at.last)}` : `step ${stepText(at.step)}`;
      text = `${shortened(at.tensor, 80)} · ${when} · ${[values, ...kinds].filter(Boolean).join(", ")}`;
    }
    this.says.textContent = text;
    return text;
  }

  /** @param {import("../layers/heat_map.js").Cursor} cursor */
  open(cursor) {
    this.map.cursor = cursor;
    this.map.mark();
    this.map.reveal();
    this.say();
    const at = this.map.at();
    if (!at) return;
    this.context.params.set({ row: at.tensor, step: at.step }, true);
    this.showDetails(at.tensor, at.name, at.step);
  }

  /** @param {string} tensor @param {string} series @param {number} step */
  showDetails(tensor, series, step) {
    if (!this.run || !this.cells) return;
    void this.details.show({ run: this.run, scope: this.scope ?? "", rank: this.rank ?? 0 }, tensor, series, step, this.cells.lastStep);
  }

  /** @param {[number, number] | null} range */
  zoom(range) {
    this.zoomed = range && range[1] > range[0] ? range : null;
    this.context.params.set({ zoom: this.zoomed?.join(",") }, true);
    this.draw();
    this.loadSoon();
  }

  /** @param {Set<string>} changed */
  refresh(changed) {
    if (this.run && changed.has(this.run.key)) this.due();
  }

  async again() {
    const { context } = this;
    if (!context.source.live) return;
    const listed = this.list().catch((error) => context.signal.aborted || context.fail(error));
    await Promise.all([listed, this.details.read()]);
  }

  close() {
    this.observer.disconnect();
  }
}
