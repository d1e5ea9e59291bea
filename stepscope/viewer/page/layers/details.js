/** What is known of one layer: its histograms over time, its series, and its findings. */
import { address } from "../data/address.js";
import { element, shortened } from "../dom.js";
import { counted, stepText } from "../text/format.js";
import { load, rowAt, rowText } from "../histograms/found.js";
import { Picture } from "../histograms/picture.js";
import { whenRead } from "../parts/released.js";
import { chartsLink } from "../verdict/links.js";

const HEIGHT = 220;
const MOST_FINDINGS = 30;
const MOST_PICTURES = 4;

export class Details {
  /**
   * @param {import("../context.js").Context} context @param {() => void} closed
   * @param {() => void} due called if an answer lacks what was stored last
   */
  constructor(context, closed, due) {
    this.context = context;
    this.due = due;
    this.element = element("section", { class: "details", hidden: true, "aria-label": "layer" });
    this.closed = closed;
    this.asked = "";
    this.histograms = element("div", { class: "pictures" });
    this.findings = element("div", null);
    this.findingsText = "";
    /** @type {{of: {run: import("../context.js").ChosenRun, scope: string, rank: number}, tensor: string, step: number} | null} */
    this.about = null;
    /** By name. @type {Map<string, {picture: Picture, says: HTMLElement, figure: HTMLElement, found: import("../histograms/found.js").Found}>} */
    this.pictures = new Map();
  }

  /**
   * @param {{run: import("../context.js").ChosenRun, scope: string, rank: number}} of @param {string} tensor
   * @param {string} series the name of the row's series @param {number} step @param {number} lastStep
   */
  async show(of, tensor, series, step, lastStep) {
    const { context } = this;
    const asked = `${of.run.key} ${of.scope} ${of.rank} ${tensor} ${step} ${series}`;
    if (asked === this.asked) return;
    this.asked = asked;
    this.about = { of, tensor, step };
    this.pictures.clear();
    this.findingsText = "";
    const place = { context, run: of.run.key, scope: of.scope, rank: of.rank, lastStep };
    this.histograms.replaceChildren(element("p", { class: "note" }, "Reading its histograms…"));
    this.findings.replaceChildren();
    const close = element("button", { class: "icon", "aria-label": "close", click: () => this.hide() }, "×");
    this.element.replaceChildren(
      element("h2", null, element("code", { title: tensor.slice(0, 4096) }, shortened(tensor, 100)), " ", element("a", { href: chartsLink(place, [series], step) }, `its chart at step ${stepText(step)}`), close),
      this.histograms, element("h3", null, "Findings"), this.findings);
    this.element.hidden = false;
    await this.read();
  }

  /** Asks for what is known of the layer that is open, now and while its training writes. */
  async read() {
    const { asked, context } = this;
    if (!asked) return;
    try {
      await Promise.all([this.readHistograms(asked), this.readFindings(asked)]);
    } catch (error) {
      if (!context.signal.aborted) context.fail(error);
    }
  }

  /** @param {string} asked */
  async readHistograms(asked) {
    const { context } = this;
    const { of, tensor } = /** @type {NonNullable<typeof this.about>} */ (this.about);
    const { names } = await context.source.json(address("names", { run: of.run.key, rank: of.rank || null }), { signal: context.signal });
    const prefix = of.scope ? `${of.scope}/` : "";
    const own = names.filter((/** @type {any} */ info) => info.kind === "histogram" && info.name.startsWith(prefix) && info.name.endsWith(`/${tensor}`)).map((/** @type {any} */ info) => info.name).slice(0, MOST_PICTURES);
    const all = await Promise.all(own.map((/** @type {string} */ name) => load(context, of.run, name, of.rank)));
    if (asked !== this.asked) return;
    all.forEach((found, which) => this.pictureOf(own[which], found));
    const figures = [...this.pictures.values()].map(({ figure }) => figure);
    if (!figures.length) figures.push(element("p", { class: "note" }, "No histogram of it was recorded."));
    // What stays in its place keeps the focus.
    if (figures.some((figure, which) => figure !== this.histograms.children[which])) this.histograms.replaceChildren(...figures);
    this.draw();
  }

  /** Shows a histogram in the figure of its name. @param {string} name @param {import("../histograms/found.js").Found} found */
  pictureOf(name, found) {
    const { step } = /** @type {NonNullable<typeof this.about>} */ (this.about);
    let shown = this.pictures.get(name);
    if (!shown) {
      const [picture, says] = [new Picture(), element("p", { class: "note" })];
      const link = element("a", { href: this.context.href("histograms", { search: name, step }) }, shortened(name, 60));
      shown = { picture, says, found, figure: element("figure", null, element("figcaption", null, link, says), picture.element) };
      this.pictures.set(name, shown);
    }
    shown.found = found;
    const text = found.rows ? rowText(found, rowAt(found, step)) : "none";
    if (shown.says.textContent !== text) shown.says.textContent = text;
  }

  /** @param {string} asked */
  async readFindings(asked) {
    const { context } = this;
    const { of, tensor } = /** @type {NonNullable<typeof this.about>} */ (this.about);
    const verdict = await context.source.json(address("verdict", { run: of.run.key }), { signal: context.signal });
    if (asked !== this.asked) return;
    const session = verdict.sessions.find((/** @type {any} */ one) => one.scope === of.scope && one.rank === of.rank) ?? verdict.sessions.find((/** @type {any} */ one) => one.scope === of.scope);
    const module = tensor.slice(0, Math.max(0, tensor.lastIndexOf(".")));
    const is = (/** @type {string} */ name) => name === tensor || (name === module && module !== "");
    const causes = (session?.causes ?? []).filter((/** @type {any} */ cause) => cause.where.some((/** @type {any} */ one) => is(one.name)));
    const found = (session?.findings ?? []).filter((/** @type {any} */ finding) => finding.tensors.some(is));
    // An alert names a few tensors and counts the others, which may be this one.
    const perhaps = (session?.findings ?? []).filter((/** @type {any} */ finding) => finding.more_tensors > 0 && !finding.tensors.some(is));
    const line = (/** @type {any} */ finding, of = "") => element("li", null, element("span", { class: `level ${finding.level}` }, finding.level), ` ${finding.kind} at step ${stepText(finding.step)}${of}: ${finding.evidence.slice(0, 600)}`);
    const lines = [
      ...causes.map((/** @type {any} */ cause) => element("li", null, element("a", { href: context.href("verdict") }, `cause: ${cause.title}`), cause.since_step === null ? "" : `, since step ${stepText(cause.since_step)}`)),
      ...found.slice(0, MOST_FINDINGS).map((/** @type {any} */ finding) => line(finding)),
      ...perhaps.slice(0, MOST_FINDINGS).map((/** @type {any} */ finding) => line(finding, `, perhaps here: it names ${finding.tensors.length} of ${finding.tensors.length + finding.more_tensors} tensors`)),
    ];
    if (verdict.behind) this.due();
    const text = lines.map((line) => line.textContent).join("\n") + found.length;
    if (text === this.findingsText) return;
    this.findingsText = text;
    whenRead(this.findings, () => this.findings.replaceChildren(lines.length ? element("ul", null, ...lines) : element("p", { class: "note" }, "Nothing was found in this layer."),
      found.length > MOST_FINDINGS ? element("p", { class: "note" }, `and ${counted(found.length - MOST_FINDINGS, "finding")} more`) : ""));
  }

  draw() {
    if (!this.about) return;
    const width = Math.max(280, Math.min(620, (this.element.clientWidth - 40) / Math.min(2, this.pictures.size || 1)));
    const look = { mode: /** @type {const} */ ("heat"), log: true, step: this.about.step };
    for (const { picture, found } of this.pictures.values()) picture.draw([found], look, width, HEIGHT);
  }

  hide() {
    this.clear();
    this.closed();
  }

  /** Hides it, and leaves in the address which row was open. */
  clear() {
    this.asked = "";
    this.element.hidden = true;
    this.pictures.clear();
  }
}
