/** What is above the charts: search, axes, smoothing. */
import { element } from "../dom.js";

const AXES = /** @type {const} */ ([["step", "Step"], ["relative", "Time"], ["wall", "Clock"]]);

export class Toolbar {
  /** @param {import("./board.js").Board} board */
  constructor(board) {
    this.board = board;
    this.search = element("input", { type: "search", placeholder: "search series, /regex/", "aria-label": "search series", title: "/" });
    this.search.addEventListener("input", () => board.find(this.search.value));
    this.count = element("span", { class: "note count", role: "status" });
    this.axes = AXES.map(([axis, text]) => element("button", { "aria-pressed": "false", click: () => board.change({ x: axis === "step" ? null : axis, zoom: null }) }, text));
    this.smoothing = element("input", { type: "range", min: "0", max: "0.99", step: "0.01", "aria-label": "smoothing" });
    this.amount = element("output");
    this.smoothing.addEventListener("input", () => {
      this.amount.textContent = Number(this.smoothing.value).toFixed(2);
      board.redraw({ smoothing: Number(this.smoothing.value) });
      board.keep();
    });
    this.log = element("button", { "aria-pressed": "false", click: () => board.change({ log: !board.look.log }) }, "Log y");
    this.reset = element("button", { click: () => board.zoom(null), title: "double click a chart, or 0", hidden: true }, "Whole range");
    this.element = element("div", { class: "toolbar", role: "toolbar", "aria-label": "charts" }, this.search, this.count,
      element("span", { class: "segments", role: "group", "aria-label": "x axis" }, ...this.axes),
      element("label", null, "Smoothing ", this.smoothing, this.amount), this.log, board.ranks.element, this.reset,
      element("span", { class: "note help", title: "on a chart: arrows, +, -, 0, p, Enter" }, "Drag zooms, Shift+drag pans, double click resets"));
  }

  /** Shows the state of the board. */
  show() {
    const { look } = this.board;
    const search = this.board.context.params.get("search");
    if (document.activeElement !== this.search) this.search.value = search;
    for (const [place, [axis]] of AXES.entries()) this.axes[place].setAttribute("aria-pressed", String(axis === look.axis));
    this.smoothing.value = String(look.smoothing);
    this.amount.textContent = look.smoothing.toFixed(2);
    this.log.setAttribute("aria-pressed", String(look.log));
    this.board.ranks.update();
    this.reset.hidden = !look.zoom;
  }

  /** @param {string} text @param {boolean} wrong */
  found(text, wrong) {
    this.count.textContent = text;
    this.count.classList.toggle("wrong", wrong);
  }
}
