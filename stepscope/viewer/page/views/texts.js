/** Texts, tables, curves, files and alerts of the chosen runs. */
import { address } from "../data/address.js";
import { element } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { NameList, namesOf } from "../parts/name_list.js";
import { RankChooser } from "../parts/rank_chooser.js";
import { whenRead, whenReleased } from "../parts/released.js";
import { viewKeys } from "../parts/row_list.js";
import { alertsPanel } from "./alerts.js";
import { filesPanel } from "./files.js";
import { CONTENTS } from "./text_contents.js";

const TABS = { text: "Texts", table: "Tables", curve: "Curves", file: "Files", alert: "Alerts" };

/** @typedef {{element: HTMLElement, close?: () => void, shows?: string}} Made */

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  return new Texts(root, context);
}

class Texts {
  /** @param {HTMLElement} root @param {import("../context.js").Context} context */
  constructor(root, context) {
    this.context = context;
    this.loading = 0;
    /** What is shown: who reads, selects, sorts or writes is not interrupted where nothing is new. */
    this.shown = "";
    /** Whether something else was asked for than what is shown. */
    this.anew = true;
    /** @type {(() => void)[]} */
    this.closing = [];
    this.tabs = Object.entries(TABS).map(([kind, title]) =>
      element("button", { role: "tab", id: `tab-${kind}`, "aria-controls": "texts-panel", click: () => this.set({ kind, name: null, seq: null }), keydown: (/** @type {KeyboardEvent} */ event) => this.tabKey(event) }, title));
    this.names = new NameList("names", (name) => this.set({ name, seq: null }));
    this.ranks = new RankChooser(context, (rank) => this.set({ rank, name: null, seq: null, step: null }));
    this.content = element("div", { class: "detail" });
    this.chooser = element("div", { class: "bar" }, this.ranks.element);
    this.split = element("div", { class: "split", id: "texts-panel", role: "tabpanel" }, this.names.element, this.content);
    root.append(element("div", { class: "tabs", role: "tablist", "aria-label": "kinds" }, ...this.tabs), this.chooser, this.split);
    viewKeys({ "[": () => this.other(-1), "]": () => this.other(1) }, context.signal);
    void this.load();
  }

  /** @param {KeyboardEvent} event */
  tabKey(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const tab = this.tabs[(this.tabs.indexOf(/** @type {any} */ (event.target)) + by + this.tabs.length) % this.tabs.length];
    tab.click();
    tab.focus();
  }

  /** @param {Record<string, string | number | null>} changes */
  set(changes) {
    this.context.params.set(changes);
    void this.load();
  }

  /** @param {number} by */
  other(by) {
    const name = this.names.beside(by);
    if (name) this.set({ name, seq: null });
  }

  /** @param {boolean} [again] whether the same is shown, with what is new */
  async load(again = false) {
    const turn = ++this.loading;
    this.anew ||= !again;
    const { params, fail } = this.context;
    const kind = Object.hasOwn(TABS, params.get("kind")) ? params.get("kind") : "text";
    for (const tab of this.tabs) {
      const isOpen = tab.id === `tab-${kind}`;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.tabIndex = isOpen ? 0 : -1;
    }
    this.ranks.update();
    this.chooser.hidden = kind === "file" || kind === "alert" || this.ranks.element.hidden; // these show all ranks
    this.split.setAttribute("aria-labelledby", `tab-${kind}`);
    try {
      /** @type {Made | null} */
      const made = kind === "file" ? await filesPanel(this.context) : kind === "alert" ? await alertsPanel(this.context) : await this.contents(kind);
      if (!made) return;
      if (turn !== this.loading || (!this.anew && this.content.firstElementChild?.isEqualNode(made.element))) return made.close?.();
      (this.anew ? whenReleased : whenRead)(this.content, () => {
        if (turn !== this.loading) return made.close?.();
        this.shown = made.shows ?? "";
        this.names.element.hidden = kind === "file" || kind === "alert" || !this.names.names.length;
        this.close();
        this.closing = made.close ? [made.close] : [];
        const kept = this.anew ? null : keptPlace(this.content);
        this.anew = false;
        this.content.replaceChildren(made.element);
        kept?.();
      });
    } catch (error) {
      fail(error);
    }
  }

  /** @param {string} kind @returns {Promise<Made | null>} null where what is shown stays */
  async contents(kind) {
    const { params, source, signal } = this.context;
    const known = await namesOf(this.context, [kind], this.ranks);
    const name = (known.find((one) => one.name === params.get("name")) ?? known[0])?.name ?? ""; // other runs may lack it
    this.names.update(known.map((one) => one.name), name);
    if (!known.length) return { element: element("p", { class: "note" }, `The chosen runs have no ${TABS[/** @type {"text"} */ (kind)].toLowerCase()}.`) };
    const having = this.ranks.runs().filter(({ key }) => known.find((one) => one.name === name)?.runs.includes(key));
    const answers = await ofEachRun(this.context, having, ({ key }) => source.json(address(`${kind}s`, { run: key, name, rank: this.ranks.of(key) }), { signal }));
    const entries = answers.map(({ run, answer }) => ({ run, rank: this.ranks.of(run.key), entries: answer[`${kind}s`] }));
    const shows = JSON.stringify([kind, name, entries.map((one) => [one.run.key, one.rank, one.entries])]);
    if (!this.anew && shows === this.shown) return null;
    return { ...(await CONTENTS[/** @type {"text"} */ (kind)](this.context, name, entries)), shows };
  }

  refresh() {
    void this.load(true);
  }

  state() {
    void this.load();
  }

  recolour() {
    void this.load();
  }

  close() {
    for (const close of this.closing) close();
    this.closing = [];
  }
}

/** What gives its focus, its scrolling and the order of its tables back to what is drawn anew. @param {HTMLElement} host */
function keptPlace(host) {
  const { scrollTop } = host;
  const orders = tablesIn(host).map((heads) => heads.map((head) => head.getAttribute("aria-sort")));
  const focused = host.contains(document.activeElement) ? document.activeElement : null;
  const label = focused?.getAttribute("aria-label");
  const place = focused instanceof HTMLInputElement && focused.type === "search" ? focused.selectionStart : null;
  return () => {
    tablesIn(host).forEach((heads, table) => heads.forEach((head, place) => {
      const order = orders[table]?.[place];
      for (let clicks = order === "descending" ? 2 : order ? 1 : 0; clicks; clicks--) head.querySelector("button")?.click();
    }));
    host.scrollTop = scrollTop;
    const found = label && [...host.querySelectorAll("[aria-label]")].find((one) => one.getAttribute("aria-label") === label);
    if (!(found instanceof HTMLElement)) return;
    found.focus();
    if (found instanceof HTMLInputElement && place !== null) found.setSelectionRange(place, place);
  };
}

/** The heads of each table. @param {HTMLElement} host */
function tablesIn(host) {
  return [...host.querySelectorAll("table.data")].map((table) => [...table.querySelectorAll("th")]);
}
