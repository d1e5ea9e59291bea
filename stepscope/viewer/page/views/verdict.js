/** The first view: what is wrong with each chosen run, since when, why, and what to try. The worst run comes first. */
import { address } from "../data/address.js";
import { paced } from "../data/paced.js";
import { element, shortened } from "../dom.js";
import { whenRead } from "../parts/released.js";
import { Session, stateOf, steps } from "../verdict/session.js";

const ORDER = ["bad", "warn", "", "good"];

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  const cards = context.runs.map((run) => new RunCard(context, run, () => arrange()));
  const host = element("div", { class: "verdicts" }, ...cards.map((card) => card.element));
  root.append(host);
  function arrange() {
    const sorted = [...cards].sort((a, b) => a.badness() - b.badness());
    if (sorted.some((card, place) => host.children[place] !== card.element)) host.append(...sorted.map((card) => card.element));
  }
  return {
    refresh: (changed) => cards.forEach((card) => changed.has(card.run.key) && card.due()),
    state: () => undefined,
    recolour: () => cards.forEach((card) => card.sessions.forEach((session) => session.recolour())),
    close: () => cards.forEach((card) => card.close()),
  };
}

class RunCard {
  /** @param {import("../context.js").Context} context @param {import("../context.js").ChosenRun} run @param {() => void} changed */
  constructor(context, run, changed) {
    this.context = context;
    this.run = run;
    this.changed = changed;
    /** @type {Session[]} */
    this.sessions = [];
    this.shown = "";
    this.due = paced(() => this.load(), context.signal);
    /** @type {any} */
    this.found = null;
    this.mark = element("span", { class: "mark" });
    this.body = element("div", null, element("p", { class: "note" }, "Asking the run…"));
    this.element = element("article", { class: "verdict-card", "aria-label": `verdict of ${shortened(run.name, 80)}` },
      element("h2", { title: run.folder }, element("span", { class: `swatch run-${run.place % 8}` }), shortened(run.name, 80), " ", this.mark), this.body);
    this.due();
  }

  /** The worst first; what was not answered yet stays where it is. */
  badness() {
    if (!this.found) return ORDER.length;
    return ORDER.indexOf(this.found.state) - (this.found.causes[0]?.confidence ?? 0) / 2;
  }

  async load() {
    try {
      const found = await this.context.source.json(address("verdict", { run: this.run.key }), { signal: this.context.signal });
      if (this.context.signal.aborted) return;
      this.show(found);
      if (found.behind && this.context.source.live) this.due();
    } catch (error) {
      if (this.context.signal.aborted) return;
      if (!this.found) this.body.replaceChildren(element("p", { class: "unreadable" }, `This run has no verdict: ${error instanceof Error ? error.message : error}`));
      else this.context.fail(error);
    }
  }

  /** @param {any} found */
  show(found) {
    this.mark.textContent = found.live ? "training runs: this is what can be said so far" : "";
    this.mark.className = found.live ? "mark live" : "mark";
    const { position: _position, behind: _behind, ...content } = found;
    const text = JSON.stringify(content);
    this.found = found;
    if (text === this.shown) {
      this.sessions.forEach((session) => session.reload());
      return;
    }
    this.shown = text;
    whenRead(this.body, () => this.draw(found));
  }

  /** @param {any} found */
  draw(found) {
    const opened = [...this.body.querySelectorAll("details")].map((details) => details.open);
    this.sessions.forEach((session) => session.close());
    const several = found.sessions.length > 1;
    this.sessions = found.sessions.map((/** @type {any} */ session) => {
      const alerts = several ? found.alerts.filter((/** @type {any} */ alert) => session.scope && alert.name.startsWith(`${session.scope}/`)) : found.alerts;
      return new Session(this.context, this.run, session, alerts, several);
    });
    const damaged = found.damage.length > 0 && element("p", { class: "unreadable" }, `Parts of this run are damaged, and in nothing that is said here. ${found.damage.join("; ")}`);
    this.body.replaceChildren(...(damaged ? [damaged] : []), ...(several ? [this.overview()] : []), ...this.sessions.map((session) => session.element));
    [...this.body.querySelectorAll("details")].forEach((details, place) => (details.open = opened[place] ?? false));
    this.changed();
  }

  overview() {
    const rows = this.sessions.map((session) => {
      const { found } = session;
      const name = [found.scope || "no scope", found.rank && `rank ${found.rank}`].filter(Boolean).join(", ");
      const button = element("button", { click: () => session.element.scrollIntoView({ block: "start" }) }, name);
      return element("tr", null, element("th", { scope: "row" }, button), element("td", null, stateOf(found)),
        element("td", null, steps(found)), element("td", null, found.verdict));
    });
    return element("table", { class: "areas", "aria-label": "sessions of this run" }, element("tbody", null, ...rows));
  }

  close() {
    this.sessions.forEach((session) => session.close());
  }
}
