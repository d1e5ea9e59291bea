/** The list of runs in the header: search, choose, colours. */
import { append, element, shortened } from "../dom.js";
import { whenReleased } from "../parts/released.js";
import { counted, timeText } from "../text/format.js";
import { runClass } from "./theme.js";

/**
 * @typedef {import("../context.js").RunInfo} RunInfo
 */

/** Chosen runs that the button names; it counts the others. */
const SHOWN = 3;

export class RunChooser {
  /**
   * @param {(keys: string[]) => void} choose
   */
  constructor(choose) {
    this.choose = choose;
    /** @type {RunInfo[]} */
    this.runs = [];
    /** @type {{folder: string, error: string}[]} */
    this.unreadable = [];
    /** @type {string[]} */
    this.chosen = [];
    /** @type {Record<string, any>} */
    this.states = {};
    this.button = element("button", { class: "chooser", "aria-haspopup": "dialog", "aria-expanded": "false", click: () => this.toggle() });
    this.search = element("input", { type: "search", placeholder: "name, folder, tag, status", "aria-label": "search runs", input: () => this.list() });
    this.rows = element("ul", { class: "runs" });
    this.note = element("p", { class: "note" });
    const actions = element(
      "p",
      { class: "actions" },
      element("button", { click: () => this.set(this.matching().map(({ key }) => key)) }, "All found"),
      element("button", { click: () => this.set([]) }, "None"),
    );
    this.panel = element("div", { class: "panel", role: "dialog", "aria-label": "runs", hidden: true }, this.search, actions, this.rows, this.note);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.toggle(false);
    });
    document.addEventListener("pointerdown", (event) => {
      if (!this.panel.hidden && !this.element.contains(/** @type {Node} */ (event.target))) this.toggle(false);
    });
    this.element = element("div", { class: "choosing" }, this.button, this.panel);
  }

  /** @param {boolean} [open] */
  toggle(open = Boolean(this.panel.hidden)) {
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) {
      this.list();
      this.search.focus();
    } else this.button.focus();
  }

  /**
   * @param {RunInfo[]} runs
   * @param {{folder: string, error: string}[]} unreadable
   * @param {string[]} chosen
   */
  update(runs, unreadable, chosen) {
    Object.assign(this, { runs, unreadable, chosen });
    this.show();
    if (!this.panel.hidden) this.list();
  }

  /** What the latest look at the chosen runs said. @param {Record<string, any>} states */
  mark(states) {
    if (JSON.stringify(states) === JSON.stringify(this.states)) return;
    this.states = states;
    this.show();
  }

  /** @param {RunInfo} run @returns {[kind: string, text: string]} */
  state(run) {
    const state = this.states[run.key] ?? run;
    if (state.error) return ["gone", "unreadable"];
    if (state.damage) return ["failed", "damaged"];
    return state.live ? ["live", "live"] : [state.status === "failed" ? "failed" : "ended", state.status];
  }

  show() {
    whenReleased(this.button, () => this.showNow());
  }

  showNow() {
    const chosen = this.chosen.flatMap((key) => this.runs.find((run) => run.key === key) ?? []);
    const chips = element("span", { class: "chips" });
    this.button.replaceChildren(chips);
    for (const [place, run] of chosen.slice(0, SHOWN).entries()) {
      const [kind, text] = this.state(run);
      append(
        chips,
        element("span", { class: "chip", title: run.folder }, element("span", { class: `swatch ${runClass(place)}` }), element("span", { class: "name" }, shortened(run.name, 28)),
          // Beside other runs there is room for what is out of the ordinary.
          (chosen.length === 1 || kind !== "ended") && element("span", { class: `mark ${kind}` }, text)),
      );
    }
    const more = element("span", null, chosen.length ? "" : "no run chosen");
    const count = () => (more.textContent = chosen.length > chips.childElementCount ? `+${chosen.length - chips.childElementCount}` : more.textContent);
    append(this.button, more, element("span", { class: "note" }, `of ${counted(this.runs.length, "run")} ▾`));
    count();
    // Those that find no room are counted, too.
    while (chips.childElementCount > 1 && chips.scrollWidth > chips.clientWidth) {
      chips.lastElementChild?.remove();
      count();
    }
  }

  matching() {
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.runs.filter((run) => {
      const text = [run.name, run.folder, run.status, run.live ? "live" : "", ...run.tags].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
  }

  list() {
    whenReleased(this.rows, () => this.listNow());
  }

  listNow() {
    const found = this.matching();
    const broken = this.unreadable.map(({ folder, error }) => element("span", { class: "unreadable", title: folder }, `${shortened(folder, 50)}: ${error}`));
    this.note.replaceChildren(`${found.length} of ${counted(this.runs.length, "run")} found`, ...broken);
    const focused = this.rows.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
    this.rows.replaceChildren(...found.map((run) => this.row(run)));
    if (!focused) return;
    const same = /** @type {HTMLElement | null} */ (this.rows.querySelector(`${focused.tagName}[data-key="${focused.dataset.key}"]`));
    (same ?? this.search).focus();
  }

  /** @param {RunInfo} run */
  row(run) {
    const place = this.chosen.indexOf(run.key);
    const [kind, text] = this.state(run);
    const box = element("input", { type: "checkbox", checked: place >= 0, "data-key": run.key });
    box.addEventListener("change", () => this.set(box.checked ? [...this.chosen, run.key] : this.chosen.filter((key) => key !== run.key)));
    return element(
      "li",
      null,
      element("label", null, box, element("span", { class: place < 0 ? "swatch" : `swatch ${runClass(place)}` }),
        element("span", { class: "name", title: `${run.name}\n${run.folder}` }, shortened(run.name)),
        element("span", { class: `mark ${kind}` }, text), element("span", { class: "note" }, timeText(run.created_ms)),
        run.damage && element("span", { class: "unreadable" }, run.damage)),
      element("button", { class: "only", "data-key": run.key, click: () => this.set([run.key]), "aria-label": `only ${shortened(run.name)}` }, "only"),
    );
  }

  /** @param {string[]} keys */
  set(keys) {
    this.choose(keys);
    this.list();
  }
}
