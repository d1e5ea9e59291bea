/** Datapoints by epoch: one at a time with its debug outputs, filtered, and beside another epoch or run. */
import { element } from "../dom.js";
import { counted } from "../text/format.js";
import { whenRead, whenReleased } from "../parts/released.js";
import { RowList, viewKeys } from "../parts/row_list.js";
import { besideOptions, epochOptions, epochsOf, epochText } from "./datapoint_epochs.js";
import { EpochContents, SHOWN, rowOf } from "./datapoint_list.js";
import { datapointPanel } from "./datapoint_panel.js";

/** @typedef {import("./datapoint_epochs.js").Epoch} Epoch */

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  return new Datapoints(root, context);
}

class Datapoints {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    /** @type {Epoch[]} */
    this.epochs = [];
    /** @type {EpochContents | null} */
    this.contents = null;
    /** @type {number[]} */
    this.found = [];
    this.turn = 0;
    this.drawn = 0;
    const choice = (/** @type {string} */ label, /** @type {string} */ name, /** @type {[string, string][]} */ options = []) =>
      element("select", { "aria-label": label, change: (/** @type {Event} */ event) => this.set({ [name]: /** @type {HTMLSelectElement} */ (event.target).value }) },
        ...options.map(([value, text]) => element("option", { value }, text)));
    this.choices = {
      epoch: choice("epoch", "epoch"),
      beside: choice("beside", "beside"),
      show: choice("show", "show", SHOWN),
      label: choice("label", "label"),
      debugger: choice("debugger", "debugger"),
      sort: choice("order", "sort", [["", "as recorded"], ["loss", "largest loss"], ["margin", "largest margin"], ["changed", "changed most"]]),
    };
    this.search = element("input", { type: "search", placeholder: "index", "aria-label": "search an index", input: () => this.set({ q: this.search.value }) });
    this.said = element("p", { class: "note", role: "status" });
    this.list = new RowList({ label: "datapoints", render: (place) => this.contents ? rowOf(this.contents, this.found[place]) : [], choose: (place) => this.choose(place) });
    this.detail = element("div", { class: "detail" });
    const { epoch, beside, show, label, debugger: debuggers, sort } = this.choices;
    const field = (/** @type {string} */ text, /** @type {HTMLElement} */ control) => element("label", null, `${text} `, control);
    this.panel = element("div", { hidden: true },
      element("div", { class: "bar" }, field("epoch", epoch), field("beside", beside), field("debugger", debuggers)),
      element("div", { class: "split" },
        element("div", { class: "name-list" }, element("div", { class: "bar" }, show, label, sort, this.search), this.said, this.list.element), this.detail));
    this.nothing = element("p", { class: "note", hidden: true }, "The chosen runs have no pages of debug outputs. A SequentialDebugger with emitter=run, or with pages in epoch_<n>/debugger of the run's folder, records them.");
    this.refused = element("ul", { class: "unreadable", "aria-label": "pages that cannot be opened", hidden: true });
    this.waiting = element("p", { class: "note" }, "Looking for datapoints…");
    root.append(this.waiting, this.refused, this.panel, this.nothing);
    viewKeys({ ArrowLeft: () => this.move(-1), ArrowRight: () => this.move(1), k: () => this.move(-1), j: () => this.move(1) }, context.signal);
    void this.load();
  }

  /** @param {Record<string, string | number | null>} changes */
  set(changes) {
    const another = "epoch" in changes || "beside" in changes;
    this.context.params.set(changes, !another);
    if (another) void this.load();
    else this.filter();
  }

  async load() {
    const turn = ++this.turn;
    try {
      await this.read(turn);
    } catch (error) {
      this.context.fail(error);
    }
    this.waiting.hidden = true;
  }

  /** @param {number} turn */
  async read(turn) {
    const { params } = this.context;
    const { epochs, refused } = await epochsOf(this.context);
    if (turn !== this.turn) return;
    this.epochs = epochs;
    this.waiting.hidden = true;
    this.panel.hidden = !this.epochs.length;
    this.nothing.hidden = this.epochs.length > 0 || refused.length > 0;
    this.refused.hidden = !refused.length;
    whenRead(this.refused, () => this.refused.replaceChildren(...refused.map((why) => element("li", null, why))));
    if (!this.epochs.length) return;
    const epoch = this.epochs.find(({ id }) => id === params.get("epoch")) ?? this.epochs.filter(({ run }) => run === this.context.runs[0]).at(-1) ?? this.epochs[this.epochs.length - 1];
    const beside = this.epochs.find(({ id }) => id === params.get("beside") && id !== epoch.id) ?? null;
    epochOptions(this.choices.epoch, this.epochs, epoch);
    besideOptions(this.choices.beside, this.epochs, epoch, beside);
    const contents = new EpochContents(this.context, epoch, beside);
    await contents.readList();
    if (turn !== this.turn) return;
    this.contents = contents;
    this.filter();
    // What is right and wrong is in the pages: the list is there before them.
    for (const read of [() => contents.readVerdicts(), () => contents.readChanges()]) {
      await read();
      if (turn !== this.turn) return;
      this.filter();
    }
  }

  filter() {
    const { contents, context, choices } = this;
    if (!contents) return;
    const { params } = context;
    contents.options(choices);
    for (const name of /** @type {(keyof typeof choices)[]} */ (["show", "label", "debugger", "sort"])) choices[name].value = params.get(name);
    choices.sort.options[3].disabled = !contents.beside;
    if (document.activeElement !== this.search) this.search.value = params.get("q");
    this.found = contents.filtered({ show: params.get("show"), label: params.get("label"), debugger: params.get("debugger"), sort: params.get("sort"), search: params.get("q") });
    this.said.textContent = `${counted(this.found.length, "datapoint")} of ${contents.datapoints.length.toLocaleString("en")}${contents.said}`;
    this.list.update(this.found.length, this.place());
    void this.show();
  }

  /** The place of the chosen datapoint in the list; the first when none is chosen. */
  place() {
    const wanted = this.context.params.get("idx");
    if (!wanted) return this.found.length ? 0 : -1;
    return this.found.findIndex((at) => String(this.contents?.datapoints[at]) === wanted);
  }

  /** @param {number} place */
  choose(place) {
    const at = this.found[place];
    if (at === undefined || !this.contents) return;
    this.context.params.set({ idx: this.contents.datapoints[at] }, true);
    this.list.select(place);
    void this.show();
  }

  /** @param {number} by */
  move(by) {
    this.choose(this.place() + by);
  }

  async show() {
    const turn = ++this.drawn;
    const { contents, context } = this;
    if (!contents) return;
    const idx = context.params.get("idx") || String(contents.datapoints[this.found[0]] ?? "");
    if (!idx) {
      this.detail.replaceChildren(element("p", { class: "note" }, "No datapoint is left: change the filter."));
      return;
    }
    try {
      const made = await datapointPanel(context, contents, Number(idx), { only: context.params.get("debugger"), move: (by) => this.move(by) });
      if (turn !== this.drawn) return;
      whenReleased(this.detail, () => {
        const { scrollTop } = this.detail;
        this.detail.replaceChildren(made);
        this.detail.scrollTop = scrollTop;
      });
      this.ahead(contents);
    } catch (error) {
      if (turn === this.drawn) this.detail.replaceChildren(element("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** Asks for the neighbours before they are wanted. @param {EpochContents} contents */
  ahead(contents) {
    const place = this.place();
    for (const at of [place + 1, place - 1]) {
      const idx = contents.datapoints[this.found[at]];
      if (idx !== undefined) contents.sides().forEach((side) => void contents.datapoint(side, idx).catch(() => undefined));
    }
  }

  /** @param {Set<string>} changed */
  refresh(changed) {
    void epochsOf(this.context).then(({ epochs, refused }) => {
      const before = this.epochs.filter(({ run }) => changed.has(run.key));
      const now = epochs.filter(({ run }) => changed.has(run.key));
      if (before.map(epochText).join() !== now.map(epochText).join() || refused.length !== this.refused.childElementCount) void this.load();
    }, this.context.fail);
  }

  state() {
    void this.load();
  }

  close() {
    this.turn++;
    this.list.close();
  }
}

