/** A list of any length of which only the rows in sight exist: names, datapoints. */
import { element } from "../dom.js";
import { whenReleased } from "./released.js";

const AROUND = 8;

export class RowList {
  /**
   * @param {object} options
   * @param {string} options.label for screen readers
   * @param {number} [options.height] of a row in pixels
   * @param {(place: number) => import("../dom.js").Child[]} options.render what is in a row
   * @param {(place: number) => void} options.choose a row was chosen
   */
  constructor({ label, height = 26, render, choose }) {
    this.height = height;
    this.render = render;
    this.choose = choose;
    this.count = 0;
    this.current = -1;
    this.id = `rows-${label.replace(/\W/g, "-")}`;
    this.rows = element("div", { class: "rows" });
    this.element = element(
      "div",
      { class: "row-list", role: "listbox", tabIndex: 0, "aria-label": label, scroll: () => this.draw(), keydown: (/** @type {KeyboardEvent} */ event) => this.key(event) },
      this.rows,
    );
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.element);
  }

  /** @param {number} count @param {number} current the place of the chosen row, or -1 */
  update(count, current) {
    this.count = count;
    this.rows.style.height = `${count * this.height}px`;
    this.select(current);
  }

  /** Shows which row is chosen. @param {number} place */
  select(place) {
    this.current = place;
    const top = place * this.height;
    const { scrollTop, clientHeight } = this.element;
    if (place >= 0 && clientHeight && (top < scrollTop || top + this.height > scrollTop + clientHeight)) {
      this.element.scrollTop = top - clientHeight / 2;
    }
    this.draw();
  }

  draw() {
    whenReleased(this.rows, () => this.drawNow());
  }

  drawNow() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - AROUND);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.height) + AROUND);
    const rows = [];
    for (let place = first; place < last; place++) {
      const row = element(
        "div",
        { class: "row", role: "option", id: `${this.id}-${place}`, "aria-selected": place === this.current, "aria-posinset": place + 1, "aria-setsize": this.count, click: () => this.choose(place) },
        ...this.render(place),
      );
      row.style.top = `${place * this.height}px`;
      row.style.height = `${this.height}px`;
      rows.push(row);
    }
    this.rows.replaceChildren(...rows);
    if (this.current >= first && this.current < last) this.element.setAttribute("aria-activedescendant", `${this.id}-${this.current}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    /** @type {Record<string, number>} */
    const places = { ArrowUp: this.current - 1, ArrowDown: this.current + 1, PageUp: this.current - page, PageDown: this.current + page, Home: 0, End: this.count - 1 };
    const wanted = places[event.key];
    if (wanted === undefined || !this.count || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const place = Math.min(this.count - 1, Math.max(0, wanted));
    if (place !== this.current) this.choose(place);
  }

  close() {
    this.sizes.disconnect();
  }
}

/**
 * Keys of a view, which fields and lists that have the focus keep for themselves.
 * @param {Record<string, () => void>} keys
 * @param {AbortSignal} signal
 */
export function viewKeys(keys, signal) {
  document.addEventListener(
    "keydown",
    (event) => {
      const { target } = event;
      const taken = target instanceof HTMLElement && target.matches("input, textarea, select, [role=listbox], [role=tab], summary");
      const found = keys[event.key];
      if (taken || !found || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      found();
    },
    { signal },
  );
}
