/** The page's one place for errors, and what it says to screen readers. */
import { staticKey } from "../data/address.js";
import { element } from "../dom.js";
import { AnswerError } from "../data/source.js";

const SHOWN_MS = 4000;

export class Messages {
  constructor() {
    this.errors = element("div", { class: "errors", role: "alert" });
    this.status = element("div", { class: "status", role: "status", "aria-live": "polite" });
    /** @type {Map<string, {row: HTMLElement, addresses: Set<string>, ofView: boolean}>} by what they are about */
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
   * @param {string} [about] one error is shown for one matter; without it, an error belongs to the view
   */
  fail(error, about) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    const text = error instanceof Error ? error.message : String(error);
    const matter = about ?? (error instanceof AnswerError && error.status === 0 ? "server" : text);
    const asked = error instanceof AnswerError && error.address ? [staticKey(error.address)] : [];
    const known = this.shown.get(matter);
    if (known?.row.firstChild?.textContent === text) {
      for (const address of asked) known.addresses.add(address);
      return;
    }
    // An answer about a run that cannot be read fails for the reason that is said of the run.
    const texts = [...this.shown].map(([about, { row }]) => ({ about, said: row.firstChild?.textContent ?? "" }));
    if (texts.some(({ about, said }) => about !== matter && said.includes(text))) return;
    for (const { about, said } of texts) if (text.includes(said)) this.clear(about);
    this.clear(matter);
    if (!(error instanceof AnswerError)) console.error(error); // once, however often it is met again
    const dismiss = element("button", { class: "icon", "aria-label": "dismiss", click: () => this.clear(matter) }, "×");
    const row = element("p", null, element("span", null, text), dismiss);
    this.shown.set(matter, { row, addresses: new Set(asked), ofView: matter === text });
    this.errors.append(row);
  }

  /** An address has got its answer: what was said of it is over, and the server is there. @param {string} address */
  answered(address) {
    if (!this.shown.size) return;
    this.clear("server");
    const key = staticKey(address);
    for (const [matter, { addresses }] of this.shown) if (addresses.has(key)) this.clear(matter);
  }

  /** Another view is opened: the errors of the one before are over. */
  leaveView() {
    for (const [matter, { ofView }] of this.shown) if (ofView) this.clear(matter);
  }

  /** @param {string} matter */
  clear(matter) {
    this.shown.get(matter)?.row.remove();
    this.shown.delete(matter);
  }
}
