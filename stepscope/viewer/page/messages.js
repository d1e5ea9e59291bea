/** The page's one place for errors, and what it says to screen readers. */
import { element } from "./dom.js";
import { AnswerError } from "./source.js";

const SHOWN_MS = 4000;

export class Messages {
  constructor() {
    this.errors = element("div", { class: "errors", role: "alert" });
    this.status = element("div", { class: "status", role: "status", "aria-live": "polite" });
    /** @type {Map<string, HTMLElement>} by what they are about */
    this.shown = new Map();
    this.timer = 0;
  }

  /** Says a text to screen readers, and shows it for a moment. @param {string} text */
  announce(text) {
    clearTimeout(this.timer);
    this.status.textContent = text;
    this.timer = window.setTimeout(() => (this.status.textContent = ""), SHOWN_MS);
  }

  /**
   * Shows an error until it is dismissed or what it is about works again.
   * @param {unknown} error
   * @param {string} [about] one error is shown for one matter
   */
  fail(error, about) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    const text = error instanceof Error ? error.message : String(error);
    if (!(error instanceof AnswerError)) console.error(error);
    const matter = about ?? (error instanceof AnswerError && error.status === 0 ? "server" : text);
    const known = this.shown.get(matter);
    if (known?.firstChild?.textContent === text) return;
    this.clear(matter);
    const dismiss = element("button", { class: "icon", "aria-label": "dismiss", click: () => this.clear(matter) }, "×");
    const row = element("p", null, element("span", null, text), dismiss);
    this.shown.set(matter, row);
    this.errors.append(row);
  }

  /** @param {string} matter */
  clear(matter) {
    this.shown.get(matter)?.remove();
    this.shown.delete(matter);
  }
}
