/** A long list of which only what is on the screen exists: headings, and cards of one height in columns. */
import { element } from "../dom.js";

const CARD_HEIGHT = 300;
const CARD_WIDTH = 400;
const HEADING_HEIGHT = 40;
const GAP = 10;
const AROUND = 320;
/** What has not changed for so long rests. */
export const SETTLED_MS = 60;

/**
 * @typedef {{key: string, top: number, height: number, heading: import("./catalogue.js").Group | null, entries: import("./catalogue.js").Entry[]}} Row
 * @typedef {{element: HTMLElement, resize: (width: number, height: number) => void, close: () => void}} Item
 */

export class VirtualList {
  /**
   * @param {HTMLElement} host
   * @param {(entry: import("./catalogue.js").Entry, group: string) => Item} makeCard
   * @param {(group: import("./catalogue.js").Group, closed: boolean) => HTMLElement} makeHeading
   */
  constructor(host, makeCard, makeHeading) {
    this.makeCard = makeCard;
    this.makeHeading = makeHeading;
    this.host = host;
    this.canvas = element("div", { class: "virtual" });
    host.append(this.canvas);
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Map<string, Item>} what exists */
    this.items = new Map();
    /** @type {Set<Item>} what of it is on the screen: around that, charts are ready for who scrolls */
    this.seen = new Set();
    /** @type {import("./catalogue.js").Group[]} */
    this.groups = [];
    /** @type {Set<string>} */
    this.closed = new Set();
    this.width = 0;
    this.shownMs = -Infinity;
    /** Whether what is shown changes again and again, so that it may soon have left the screen. */
    this.moving = false;
    this.onScroll = () => this.show();
    window.addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => this.host.clientWidth !== this.width && this.layOut());
    this.observer.observe(host);
  }

  /** @param {import("./catalogue.js").Group[]} groups @param {Set<string>} closed keys */
  set(groups, closed) {
    this.groups = groups;
    this.closed = closed;
    this.layOut();
  }

  /** Finds the place of each row; makes nothing. */
  layOut() {
    this.width = this.host.clientWidth;
    this.columns = Math.max(1, Math.floor((this.width + GAP) / (CARD_WIDTH + GAP)));
    this.rows = [];
    let top = 0;
    for (const group of this.groups) {
      const closed = this.closed.has(group.key);
      this.rows.push({ key: `heading ${group.key} ${closed} ${group.entries.length}`, top, height: HEADING_HEIGHT, heading: group, entries: [] });
      top += HEADING_HEIGHT;
      for (let first = 0; !closed && first < group.entries.length; first += this.columns) {
        const entries = group.entries.slice(first, first + this.columns);
        this.rows.push({ key: group.key, top, height: CARD_HEIGHT, heading: null, entries });
        top += CARD_HEIGHT + GAP;
      }
    }
    this.canvas.style.height = `${top}px`;
    this.show();
  }

  /** Makes what has come onto the screen, and closes what has left it. */
  show() {
    const now = performance.now();
    this.moving = now - this.shownMs < SETTLED_MS;
    this.shownMs = now;
    const top = -this.canvas.getBoundingClientRect().top;
    const [above, below] = [top - AROUND, top + innerHeight + AROUND];
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle].top + this.rows[middle].height < above) low = middle + 1;
      else high = middle;
    }
    /** @type {Map<string, Item>} */
    const kept = new Map();
    this.seen.clear();
    const width = Math.floor((this.width - GAP * ((this.columns ?? 1) - 1)) / (this.columns ?? 1));
    for (let place = low; place < this.rows.length && this.rows[place].top < below; place++) {
      const row = this.rows[place];
      const isSeen = row.top < top + innerHeight && row.top + row.height > top;
      if (row.heading) {
        const { heading } = row;
        this.place(kept, row.key, () => ({ element: this.makeHeading(heading, this.closed.has(heading.key)), resize: () => undefined, close: () => undefined }), row, 0, this.width);
      }
      for (const [column, entry] of row.entries.entries()) {
        const item = this.place(kept, `${row.key}\n${entry.name}`, () => this.makeCard(entry, row.key), row, column * (width + GAP), width);
        if (isSeen) this.seen.add(item);
      }
    }
    for (const [key, item] of this.items) {
      if (kept.has(key)) continue;
      if (item.element.contains(document.activeElement)) {
        kept.set(key, item);
        continue;
      }
      item.close();
      item.element.remove();
    }
    this.items = kept;
    this.order();
  }

  /** The keyboard and screen readers go through the elements as they are seen. */
  order() {
    let next = this.canvas.firstChild;
    for (const { element } of this.items.values()) {
      if (element === next) next = next.nextSibling;
      else this.canvas.insertBefore(element, next);
    }
  }

  /**
   * @param {Map<string, Item>} kept @param {string} key @param {() => Item} make
   * @param {Row} row @param {number} left @param {number} width
   */
  place(kept, key, make, row, left, width) {
    const known = this.items.get(key);
    const item = known ?? make();
    kept.set(key, item);
    const { style } = item.element;
    style.transform = `translate(${left}px, ${row.top}px)`;
    style.width = `${width}px`;
    style.height = `${row.height}px`;
    if (!known) this.canvas.append(item.element); // its place among the others is found when all are there
    item.resize(width, row.height);
    return item;
  }

  /** Closes all that exists; the rows keep their places until others are set. */
  forget() {
    for (const item of this.items.values()) {
      item.close();
      item.element.remove();
    }
    this.items = new Map();
    this.seen.clear();
  }

  close() {
    window.removeEventListener("scroll", this.onScroll);
    this.observer.disconnect();
    this.forget();
  }
}
