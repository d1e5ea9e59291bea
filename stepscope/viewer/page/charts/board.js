/** All charts of the chosen runs: what they share, and which of them are on the screen. */
import { afterPause, element, shortened } from "../dom.js";
import { counted } from "../text/format.js";
import { Alerts } from "./alerts.js";
import { Card } from "./card.js";
import { Catalogue, matcher } from "./catalogue.js";
import { Loader } from "./loader.js";
import { RankChooser } from "../parts/rank_chooser.js";
import { Toolbar } from "./toolbar.js";
import { VirtualList } from "./virtual_list.js";

const LOAD_AFTER_MS = 120;
const KEEP_AFTER_MS = 240;
/** Charts beside the screen are drawn when nothing has changed for so long, one in each frame. */
const OTHERS_AFTER_MS = 100;

/** @param {string} text @returns {string[]} */
function namesOf(text) {
  try {
    const names = JSON.parse(text || "[]");
    return Array.isArray(names) ? names.map(String) : [];
  } catch {
    return [];
  }
}

export class Board {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    /** @type {import("./plot.js").Look} */
    this.look = { axis: "step", smoothing: 0, log: false, zoom: null };
    this.loader = new Loader(context.source);
    this.alerts = new Alerts(context);
    this.ranks = new RankChooser(context, (rank) => this.change({ rank }), true);
    this.toolbar = new Toolbar(this);
    this.empty = element("p", { class: "note nothing", hidden: true });
    const host = element("div", { class: "board" });
    root.append(this.toolbar.element, this.empty, host);
    this.dialog = element("dialog", { class: "large", "aria-label": "one chart, large", close: () => this.showLarge("") });
    root.append(this.dialog);
    /** @type {Card | null} */
    this.largeCard = null;
    this.list = new VirtualList(host, (entry, group) => new Card(this, entry, group), (group, closed) => this.heading(group, closed));
    /** @type {Set<string>} */
    this.pinned = new Set();
    /** @type {Set<string>} keys of groups */
    this.closed = new Set();
    this.search = "";
    this.marked = "";
    /** @type {number | string | null | undefined} undefined before the first look */
    this.rank = undefined;
    this.loadedNames = false;
    this.loadSeen = afterPause(() => this.cards().forEach((card) => void card.load(false)), LOAD_AFTER_MS);
    /** @type {Map<Card, boolean>} charts that are not up to date, new ones or beside the screen: whether they are drawn anew, or only moved */
    this.others = new Map();
    this.nextOther = 0;
    this.showOthers = afterPause(() => this.showOther(), OTHERS_AFTER_MS);
    /** Puts what was changed without a step in the history into the hash, when that has come to rest. */
    this.keep = afterPause(() => this.context.signal.aborted || this.context.params.set(this.state(), true), KEEP_AFTER_MS);
    this.observer = new ResizeObserver(() => this.sizeLarge());
    this.observer.observe(this.dialog);
    this.read();
  }

  /** What is changed while a key or the mouse is held, as it is in the hash. */
  state() {
    const { zoom, smoothing } = this.look;
    return { search: this.search, smooth: smoothing || null, zoom: zoom?.map((x) => Number(x.toPrecision(12))).join(",") };
  }

  /** Takes the state out of the hash. */
  read() {
    const { params } = this.context;
    const axis = params.get("x", "step");
    const zoom = params.get("zoom").split(",").map(Number);
    const smoothing = Number(params.get("smooth", "0"));
    this.look = {
      axis: axis === "relative" || axis === "wall" ? axis : "step",
      smoothing: smoothing > 0 && smoothing < 1 ? smoothing : 0,
      log: params.get("log") === "1",
      zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? [zoom[0], zoom[1]] : null,
    };
    this.readList();
    const rank = this.ranks.choice();
    this.toolbar.show();
    if (rank !== this.rank) {
      this.rank = rank;
      this.catalogue = new Catalogue(this.context.source);
      this.list.forget(); // another rank may not have these series
      void this.loadNames(this.ranks.each());
      return;
    }
    this.openLarge();
    this.update(true);
    this.loadSeen();
  }

  /** Takes out of the hash which charts there are, and arranges them if that has changed. */
  readList() {
    const { params } = this.context;
    const [search, pinned, closed] = [params.get("search"), params.get("pin"), params.get("closed")];
    const marked = JSON.stringify([pinned, closed]);
    if (search === this.search && marked === this.marked) return;
    this.marked = marked;
    this.search = search;
    this.pinned = new Set(namesOf(pinned));
    this.closed = new Set(namesOf(closed));
    for (const card of this.cards()) card.showPin();
    if (this.catalogue) this.arrange();
  }

  /** @param {string} search */
  find(search) {
    this.search = search;
    this.arrange();
    this.keep();
  }

  /** @param {import("../parts/rank_chooser.js").OfRank[]} shown */
  async loadNames(shown) {
    const { catalogue } = this;
    const { signal, fail } = this.context;
    const runs = shown.map(({ key }) => key);
    let waiting = runs.length;
    const tell = () => this.loadedNames || this.toolbar.found(runs.length > 1 ? `reading ${waiting} of ${runs.length} ${this.rank === "all" ? "ranks" : "runs"} …` : "reading the run …", false);
    tell();
    const loaded = await Promise.all(shown.map(async (one, place) => {
      try {
        const isFirst = runs.indexOf(one.key) === place; // the alerts are those of all ranks
        const [news] = await Promise.all([catalogue?.load(one, signal), isFirst && this.alerts.load(one.key, signal)]);
        return news;
      } catch (error) {
        if (!signal.aborted) fail(error);
        return false;
      } finally {
        waiting -= 1;
        tell();
      }
    }));
    if (signal.aborted || catalogue !== this.catalogue) return;
    if (loaded.some(Boolean) || !this.loadedNames) {
      this.loadedNames = true;
      this.arrange();
    }
  }

  /** Groups what the search finds, and shows it. */
  arrange() {
    const { found, error } = matcher(this.search);
    const catalogue = /** @type {Catalogue} */ (this.catalogue);
    const groups = catalogue.groups(found, this.pinned);
    const count = groups.reduce((sum, group) => sum + group.entries.length, 0);
    this.toolbar.found(error || (this.search ? `${count} of ${counted(catalogue.entries.size, "series", "series")}` : counted(catalogue.entries.size, "series", "series")), !!error);
    this.empty.hidden = count > 0 || !this.loadedNames;
    this.empty.textContent = this.search ? "Nothing is found. Search for words in any order, or a /regular expression/." : "These runs have recorded no scalars. run.scalar(name, value, step=step) records one; those of a live run show up by themselves.";
    this.list.set(groups, this.closed);
    this.openLarge();
  }

  /** @param {import("./catalogue.js").Group} group @param {boolean} closed */
  heading({ key, title, entries }, closed) {
    const button = element("button", { class: "fold", "aria-expanded": String(!closed), title: title, click: () => this.toggle("closed", key) },
      `${closed ? "▸" : "▾"} ${shortened(title, 80) || "general"}`, element("span", { class: "note" }, String(entries.length)));
    return element("h2", { class: "group" }, button);
  }

  /** @returns {Card[]} */
  cards() {
    const shown = [...this.list.items.values()].filter((item) => item instanceof Card);
    return this.largeCard ? [...shown, this.largeCard] : shown;
  }

  /** @param {string} name */
  alertsOf(name) {
    return this.alerts.of(name, this.look.axis);
  }

  /** @param {Record<string, any>} changes @param {boolean} [replace] */
  change(changes, replace = false) {
    this.context.params.set({ ...this.state(), ...changes }, replace);
    this.read();
  }

  /** @param {"pin" | "closed"} which @param {string} name */
  toggle(which, name) {
    const names = new Set(namesOf(this.context.params.get(which)));
    if (!names.delete(name)) names.add(name);
    this.change({ [which]: names.size ? JSON.stringify([...names]) : null });
  }

  /** @param {string} name */
  togglePin(name) {
    this.toggle("pin", name);
    this.context.announce(this.pinned.has(name) ? "pinned" : "not pinned");
  }

  /** All charts show the same part. @param {[number, number] | null} range */
  zoom(range) {
    this.look = { ...this.look, zoom: range };
    this.update(false);
    this.toolbar.show();
    this.keep();
    this.loadSeen();
  }

  /** Draws all again, for example while the smoothing is moved. @param {Partial<import("./plot.js").Look>} changes */
  redraw(changes) {
    this.look = { ...this.look, ...changes };
    this.update(true);
  }

  /** Draws all in other colours: now the charts on the screen, soon the others. */
  recolour() {
    for (const card of this.cards()) {
      if (this.isSeen(card)) card.plot.recolour();
      else this.others.set(card, true);
    }
    if (this.others.size) this.showOthers();
  }

  /** Shows how it is to look: now in the charts on the screen, soon in the others. @param {boolean} anew or only another part */
  update(anew) {
    for (const card of this.cards()) {
      const all = anew || (this.others.get(card) ?? false);
      this.others.delete(card);
      if (this.isSeen(card)) card.update(all);
      else this.others.set(card, all);
    }
    if (this.others.size) this.showOthers();
  }

  showOther() {
    cancelAnimationFrame(this.nextOther);
    this.nextOther = 0;
    for (const [card, anew] of this.others) {
      this.others.delete(card);
      if (card.closing.signal.aborted) continue;
      card.update(anew);
      this.nextOther = requestAnimationFrame(() => this.showOther());
      return;
    }
  }

  /** Draws a new chart whose data is there: the first one at once, others a frame later each, so that frames are painted. @param {Card} card */
  drawSoon(card) {
    this.others.set(card, true);
    if (!this.nextOther) this.showOther();
  }

  /** @param {Card} card */
  isSeen(card) {
    return card === this.largeCard || this.list.seen.has(card);
  }

  /** @param {string} name none closes */
  showLarge(name) {
    if (this.context.params.get("large") === name) return;
    this.context.params.set({ large: name });
    this.openLarge();
  }

  openLarge() {
    const name = this.context.params.get("large");
    if (this.largeCard?.entry.name === name) return;
    this.largeCard?.close();
    this.largeCard = null;
    const entry = this.catalogue?.entries.get(name);
    if (!entry) {
      this.dialog.close();
      return;
    }
    this.largeCard = new Card(this, entry, "", true);
    this.dialog.replaceChildren(this.largeCard.element);
    if (!this.dialog.open) this.dialog.showModal();
    this.sizeLarge();
    this.largeCard.element.focus();
  }

  sizeLarge() {
    if (this.dialog.open) this.largeCard?.resize(this.dialog.clientWidth - 16, this.dialog.clientHeight - 24);
  }

  /** @param {Set<string>} changed */
  refresh(changed) {
    void this.loadNames(this.ranks.each().filter(({ key }) => changed.has(key)));
    for (const card of this.cards()) {
      if (card.runs().some(({ key }) => changed.has(key))) void card.load(true);
    }
  }

  close() {
    this.observer.disconnect();
    this.others.clear();
    this.list.close();
    this.largeCard?.close();
  }
}
