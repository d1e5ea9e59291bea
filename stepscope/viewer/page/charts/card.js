/** One chart: its name, its actions, its lines and the values under the cursor. */
import { address } from "../data/address.js";
import { copy, download, element, shortened } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { SYSTEM, groupOf } from "./catalogue.js";
import { csvOf, pngOf } from "./files.js";
import { inWords, showLegend } from "./legend.js";
import { firstAtLeast } from "./line.js";
import { moved, scaled } from "./moving.js";
import { Plot } from "./plot.js";
import { SETTLED_MS } from "./virtual_list.js";

const NEAR = 0.015;
const HEAD_AND_LEGEND = 74;

export class Card {
  /**
   * @param {import("./board.js").Board} board
   * @param {import("./catalogue.js").Entry} entry
   * @param {string} group whose name is left out of the title
   * @param {boolean} large
   */
  constructor(board, entry, group, large = false) {
    this.board = board;
    this.entry = entry;
    this.large = large;
    this.closing = new AbortController();
    this.loading = false;
    this.again = false;
    this.starting = 0;
    const { name } = entry;
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ click) =>
      element("button", { class: "icon", title: label, "aria-label": `${label}: ${shortened(name, 80)}`, click }, text);
    this.pin = button("☆", "pin (p)", () => board.togglePin(name));
    const title = group && name.startsWith(`${group}/`) && !large ? name.slice(group.length + 1) : name;
    this.head = element(
      "div",
      { class: "head" },
      element("span", { class: "name", title: name }, shortened(title, large ? 120 : 44)),
      element("span", { class: "actions" }, this.pin, button("copy", "copy the name", () => void copy(name, board.context.announce)),
        button("csv", "save as CSV", () => void this.saveCsv()), button("png", "save as PNG", () => void this.savePng()),
        large ? button("×", "close", () => board.showLarge("")) : button("⤢", "large (Enter)", () => board.showLarge(name))),
    );
    this.canvas = element("div", { class: "plot", "aria-hidden": "true" });
    this.legend = element("div", { class: "legend" });
    this.words = element("p", { class: "offscreen" }, "loading");
    this.element = element("figure", { class: "card", tabIndex: 0, role: "group", "aria-label": shortened(name, 200), "data-name": shortened(name, 200) },
      this.head, this.canvas, this.legend, this.words);
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    if (!large) this.head.addEventListener("dblclick", () => board.showLarge(name));
    this.plot = new Plot(this.canvas, { zoom: (range) => this.zoom(range), cursor: (x) => this.showValues(x) });
    this.showPin();
  }

  /** How it is shown: what a machine was busy with has no step of the training, so that it is always over time. */
  get look() {
    const { look } = this.board;
    return look.axis === "step" && groupOf(this.entry.name) === SYSTEM ? { ...look, axis: /** @type {const} */ ("relative"), zoom: null } : look;
  }

  /** @param {[number, number] | null} range */
  zoom(range) {
    if (this.look.axis === this.board.look.axis) this.board.zoom(range);
  }

  showPin() {
    const pinned = this.board.pinned.has(this.entry.name);
    this.pin.textContent = pinned ? "★" : "☆";
    this.pin.setAttribute("aria-pressed", String(pinned));
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    this.plot.resize(width - 12, height - HEAD_AND_LEGEND);
    if (this.starting) return;
    // Charts that pass by, while one scrolls or types a search, are neither drawn nor loaded.
    this.starting = window.setTimeout(() => this.start(), !this.large && this.board.list.moving ? SETTLED_MS : 0);
  }

  start() {
    if (this.isKnown()) this.board.drawSoon(this);
    void this.load(false);
  }

  isKnown() {
    return this.runs().every((run) => this.board.loader.known(run.key, this.entry.name, run.rank));
  }

  /** The runs, or their ranks, that have the series. */
  runs() {
    return this.board.ranks.each().filter(({ id }) => this.entry.of.has(id));
  }

  /** The steps that are loaded: what is seen, and as much on either side. @param {string} id of a run or rank @returns {[number, number] | null} */
  steps(id) {
    const { zoom, axis } = this.look;
    if (!zoom) return null;
    const [low, high] = scaled(zoom, 3, (zoom[0] + zoom[1]) / 2);
    if (axis === "step") return [Math.max(0, Math.floor(low)), Math.max(0, Math.ceil(high))];
    const drawn = this.plot.drawn.find((one) => one.run.id === id);
    if (!drawn || drawn.x.length < 2) return null;
    const last = drawn.x.length - 1;
    const at = (/** @type {number} */ x) => drawn.line.step[Math.min(last, firstAtLeast(drawn.x, x))];
    return [drawn.x[0] >= low ? 0 : drawn.line.step[Math.max(0, firstAtLeast(drawn.x, low) - 1)], at(high)];
  }

  /** @param {boolean} onlyNew */
  async load(onlyNew) {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    const { look } = this;
    const { loader } = this.board;
    const width = Math.ceil(this.plot.size.width / 50) * 50 * (look.zoom ? 3 : 1);
    try {
      await ofEachRun({ ...this.board.context, signal: this.closing.signal }, this.runs(), async ({ key, rank, id }) => {
        const of = { run: key, name: this.entry.name, rank };
        const whole = look.zoom && loader.hasAllPoints(of);
        if (whole && !onlyNew) return null;
        return loader.load(of, whole ? null : this.steps(id), width, onlyNew, this.closing.signal);
      });
      if (!this.closing.signal.aborted) this.draw();
    } catch (error) {
      if (this.closing.signal.aborted) return;
      this.words.textContent = String(error);
      this.board.context.fail(error);
    } finally {
      this.loading = false;
    }
    if (this.again) {
      this.again = false;
      void this.load(false);
    }
  }

  draw() {
    const { board, entry, look } = this;
    const lines = this.runs().flatMap((run) => {
      const line = board.loader.known(run.key, entry.name, run.rank);
      return line ? [{ run, line, startMs: run.created_ms ?? line.time[0] ?? 0 }] : [];
    });
    const alerts = look.axis === board.look.axis ? board.alertsOf(entry.name) : [];
    this.plot.draw(lines, alerts, look);
    this.words.textContent = inWords(entry.name, this.plot.drawn, look.zoom, alerts.filter(({ own }) => own).length);
    this.element.classList.toggle("empty", lines.every(({ line }) => !line.step.length));
    this.showValues(null);
  }

  /** Shows another part of what is drawn, or all of it anew. @param {boolean} anew */
  update(anew) {
    if (!this.plot.drawn.length && !(anew && this.isKnown())) return;
    if (anew) this.draw();
    else if (this.look.axis === this.board.look.axis) this.plot.zoom(this.look.zoom);
  }

  /** @param {number | null} x none are the last values */
  showValues(x) {
    if (x !== null && !this.board.isSeen(this)) return;
    const seen = this.plot.seen();
    const near = x === null || !seen ? [] : this.plot.alerts.filter((alert) => Math.abs(alert.x - x) < (seen[1] - seen[0]) * NEAR);
    const alert = near.find(({ own }) => own) ?? near[0];
    const isAsBoard = this.look.axis === this.board.look.axis;
    showLegend(this.legend, this.plot.drawn, isAsBoard ? x : x ?? Infinity, this.look, alert ? `${alert.level}: ${alert.text}` : "");
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.target !== this.element || event.ctrlKey || event.metaKey || event.altKey) return;
    const drawn = this.plot.seen();
    if (!drawn && event.key !== "p" && event.key !== "Enter") return;
    const seen = drawn ?? /** @type {[number, number]} */ ([0, 1]);
    const middle = (seen[0] + seen[1]) / 2;
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowLeft: () => this.zoom(moved(seen, -0.2)),
      ArrowRight: () => this.zoom(moved(seen, 0.2)),
      "+": () => this.zoom(scaled(seen, 0.5, middle)),
      "-": () => this.zoom(scaled(seen, 2, middle)),
      0: () => this.zoom(null),
      p: () => this.board.togglePin(this.entry.name),
      Enter: () => this.board.showLarge(this.large ? "" : this.entry.name),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  async saveCsv() {
    const { loader, ranks } = this.board;
    const { name } = this.entry;
    try {
      const runs = await Promise.all(this.runs().map(async (run) => ({ run: run.name, answer: await loader.all({ run: run.key, name, rank: run.rank }) })));
      const { source } = this.board.context;
      if (source.live && runs.some(({ answer }) => answer.meta.form === "ranges")) {
        const keys = new Set(this.runs().map(({ key }) => key));
        const shown = this.board.context.runs.filter(({ key }) => keys.has(key));
        const names = shown.map((run) => run.name.replaceAll("\n", " ")).join("\n");
        download(`${name}.csv`, source.url(address("csv", { runs: shown.map(({ key }) => key).join(","), names, name, rank: ranks.choice() })));
        return;
      }
      download(`${name}.csv`, new Blob([csvOf(name, runs)], { type: "text/csv" }));
    } catch (error) {
      this.board.context.fail(error);
    }
  }

  async savePng() {
    const canvas = this.canvas.querySelector("canvas");
    const blob = canvas && (await pngOf(canvas, this.entry.name.slice(0, 300), this.runs()));
    if (blob) download(`${this.entry.name}.png`, blob);
  }

  close() {
    clearTimeout(this.starting);
    this.closing.abort();
    this.plot.close();
  }
}
