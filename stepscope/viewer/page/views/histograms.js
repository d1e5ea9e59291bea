/** The histograms of all tensors over the steps: of several runs over each other, with a slider for all steps. */
import { address } from "../data/address.js";
import { groupOf, matcher } from "../charts/catalogue.js";
import { VirtualList } from "../charts/virtual_list.js";
import { afterPause, element, shortened } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { paced } from "../data/paced.js";
import { counted, stepText } from "../text/format.js";
import { load, rowAt, rowText } from "../histograms/found.js";
import { Picture } from "../histograms/picture.js";
import { RankChooser } from "../parts/rank_chooser.js";
import { keepFocus } from "../parts/released.js";

const MODES = [["heat", "heat map"], ["ridge", "ridges"], ["percentiles", "percentiles"], ["step", "one step"]];
const BY_NAME = new Intl.Collator("en", { numeric: true });

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  const gallery = new Gallery(root, context);
  return {
    refresh: () => gallery.refresh(),
    state: () => gallery.read(),
    recolour: () => gallery.redraw(),
    close: () => gallery.close(),
  };
}

/** @param {string} label @param {string} value @param {string[][]} choices @param {(value: string) => void} chosen */
function chooser(label, value, choices, chosen) {
  const select = element("select", { "aria-label": label }, ...choices.map(([key, text]) => element("option", { value: key, selected: key === value }, text)));
  select.addEventListener("change", () => chosen(select.value));
  return element("label", null, `${label} `, select);
}

class Gallery {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    /** @type {Map<string, {name: string, runs: Map<string, any>}>} */
    this.entries = new Map();
    this.loaded = false;
    this.ranks = new RankChooser(context, (rank) => (context.params.set({ rank }), this.read()));
    /** @type {number | null | undefined} undefined before the first look */
    this.rank = undefined;
    /** @type {number} NaN for the last one */
    this.step = NaN;
    this.shownStep = 0;
    this.lastStep = 0;
    this.host = element("div", { class: "board" });
    this.note = element("p", { class: "note" });
    this.found = element("span", { class: "note" });
    this.search = element("input", { type: "search", placeholder: "search", "aria-label": "search for histograms" });
    this.search.addEventListener("input", () => (context.params.set({ search: this.search.value }, true), this.arrange()));
    this.slider = element("input", { type: "range", min: "0", max: "1", step: "1", "aria-label": "step" });
    this.stepText = element("output", { class: "note" });
    this.slider.addEventListener("input", () => this.choose(Number(this.slider.value)));
    this.keepStep = afterPause((/** @type {number} */ step) => context.params.set({ step }, true), 200);
    this.tools = element("div", { class: "tools" });
    root.append(this.tools, this.note, this.host);
    this.list = new VirtualList(this.host, (entry) => new Card(this, entry), ({ title, entries }) => element("h2", { class: "group" }, shortened(title, 80), " ", element("span", { class: "note" }, String(entries.length))));
    const again = () => Promise.all([this.loadNames(), ...this.cards().map((card) => card.load())]);
    this.refresh = paced(again, context.signal);
    this.read();
  }

  read() {
    const { params } = this.context;
    const rank = this.ranks.rank();
    this.ranks.update();
    this.mode = /** @type {import("../histograms/picture.js").Mode} */ (MODES.some(([key]) => key === params.get("mode")) ? params.get("mode") : "heat");
    this.log = params.get("axis", "log") !== "linear";
    this.step = Number(params.get("step") || "NaN");
    this.search.value = params.get("search");
    const change = (/** @type {Record<string, string | null>} */ changes) => (params.set(changes), this.read());
    const { mode } = this;
    keepFocus(this.tools, () => this.tools.replaceChildren(this.search, this.found,
      chooser("show", mode, MODES, (mode) => change({ mode: mode === "heat" ? null : mode })),
      chooser("values", this.log ? "log" : "linear", [["log", "logarithmic"], ["linear", "linear"]], (axis) => change({ axis: axis === "log" ? null : axis })),
      this.ranks.element,
      element("label", { class: "slide" }, "step ", this.slider, this.stepText)));
    if (rank !== this.rank) {
      this.rank = rank;
      this.entries.clear();
      this.list.forget(); // what is drawn is of another rank
      void this.loadNames();
    } else {
      this.arrange();
      this.redraw();
    }
  }

  async loadNames() {
    const { context, ranks, rank } = this;
    await Promise.all(ranks.runs().map(async (run) => {
      try {
        const { names } = await context.source.json(address("names", { run: run.key, rank: ranks.of(run.key) }), { signal: context.signal });
        for (const { name, kind, count, last_step } of names) {
          if (kind !== "histogram") continue;
          const entry = this.entries.get(name) ?? { name, runs: new Map() };
          entry.runs.set(run.key, { count, last_step });
          this.entries.set(name, entry);
          this.lastStep = Math.max(this.lastStep, last_step);
        }
      } catch (error) {
        if (!context.signal.aborted) context.fail(error);
      }
    }));
    if (context.signal.aborted || rank !== this.rank) return;
    this.loaded = true;
    this.arrange();
  }

  arrange() {
    const { found, error } = matcher(this.search.value);
    const names = [...this.entries.keys()].filter(found).sort(BY_NAME.compare);
    /** @type {Map<string, {key: string, title: string, entries: any[]}>} */
    const groups = new Map();
    for (const name of names) {
      const key = groupOf(name);
      const group = groups.get(key) ?? { key, title: key || "general", entries: [] };
      group.entries.push(this.entries.get(name));
      groups.set(key, group);
    }
    this.found.textContent = error || (this.search.value ? `${names.length} of ${counted(this.entries.size, "name")}` : counted(this.entries.size, "name"));
    this.note.hidden = names.length > 0 || !this.loaded;
    this.note.textContent = this.entries.size ? "Nothing is found." : "These runs hold no histograms. stepscope.watch(model, optimizer, run=run) records those of all gradients; run.histogram(name, values, step=step) any other.";
    this.slider.max = String(Math.max(1, this.lastStep));
    this.choose(Number.isNaN(this.step) ? this.lastStep : this.step, false);
    this.list.set([...groups.values()], new Set());
  }

  /** @param {number} step @param {boolean} [keep] */
  choose(step, keep = true) {
    this.shownStep = step;
    this.slider.value = String(step);
    this.stepText.textContent = ` ${stepText(step)}`;
    if (!keep) return;
    this.step = step;
    this.keepStep(step);
    this.redraw();
  }

  /** @returns {Card[]} */
  cards() {
    return [...this.list.items.values()].filter((item) => item instanceof Card);
  }

  redraw() {
    for (const card of this.cards()) card.draw();
  }

  close() {
    this.list.close();
  }
}

class Card {
  /** @param {Gallery} gallery @param {any} entry */
  constructor(gallery, entry) {
    this.gallery = gallery;
    this.entry = entry;
    this.picture = new Picture();
    /** @type {import("../histograms/found.js").Found[]} */
    this.all = [];
    this.size = [300, 180];
    this.text = element("ul", { class: "counts" });
    this.element = element("article", { class: "card histogram-card", tabIndex: -1, "aria-label": `histograms of ${shortened(entry.name, 100)}` },
      element("h3", { title: entry.name.slice(0, 4096) }, shortened(entry.name, 56)), this.picture.element, this.text);
    void this.load();
  }

  async load() {
    const { context, ranks } = this.gallery;
    try {
      const runs = context.runs.filter(({ key }) => this.entry.runs.has(key));
      const answers = await ofEachRun(context, runs, (run) => load(context, run, this.entry.name, ranks.of(run.key)));
      this.all = answers.map(({ answer }) => answer);
      this.draw();
    } catch (error) {
      if (!context.signal.aborted) this.text.replaceChildren(element("li", null, String(error instanceof Error ? error.message : error)));
    }
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    if (this.size[0] === width && this.size[1] === height) return;
    this.size = [width, height];
    this.draw();
  }

  draw() {
    const { mode, log, shownStep } = this.gallery;
    const [width, height] = this.size;
    if (!this.all.length || !mode) return;
    const step = shownStep;
    const several = this.all.length > 1;
    this.picture.draw(this.all, { mode, log: !!log, step }, width - 18, Math.max(80, height - 46 - 34 * Math.min(3, this.all.length)));
    this.text.replaceChildren(...this.all.map((found) => element("li", null, several && element("span", { class: `swatch run-${found.run.place % 8}`, title: found.run.name }), found.rows ? rowText(found, rowAt(found, step)) : "none")));
  }

  close() {}
}
