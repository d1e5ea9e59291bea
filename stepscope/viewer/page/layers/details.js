/** What is known of one layer: its histograms over time, its series, and its findings. */
import { address } from "../data/address.js";
import { element, shortened } from "../dom.js";
import { counted, stepText } from "../text/format.js";
import { load, rowAt, rowText } from "../histograms/found.js";
import { Picture } from "../histograms/picture.js";
import { chartsLink } from "../verdict/links.js";

const HEIGHT = 220;
const MOST_FINDINGS = 30;

export class Details {
  /** @param {import("../context.js").Context} context @param {() => void} closed */
  constructor(context, closed) {
    this.context = context;
    this.element = element("section", { class: "details", hidden: true, "aria-label": "layer" });
    this.closed = closed;
    this.asked = "";
    /** @type {{picture: Picture, found: import("../histograms/found.js").Found, step: number}[]} */
    this.pictures = [];
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
    const place = { context, run: of.run.key, scope: of.scope, rank: of.rank, lastStep };
    const histograms = element("div", { class: "pictures" }, element("p", { class: "note" }, "Reading its histograms…"));
    const findings = element("div", null);
    const close = element("button", { class: "icon", "aria-label": "close", click: () => this.hide() }, "×");
    this.element.replaceChildren(
      element("h2", null, element("code", { title: tensor.slice(0, 4096) }, shortened(tensor, 100)), " ", element("a", { href: chartsLink(place, [series], step) }, `its chart at step ${stepText(step)}`), close),
      histograms, element("h3", null, "Findings"), findings);
    this.element.hidden = false;
    try {
      await Promise.all([this.histograms(of, tensor, step, asked, histograms), this.findings(of, tensor, asked, findings)]);
    } catch (error) {
      if (!context.signal.aborted) context.fail(error);
    }
  }

  /** @param {any} of @param {string} tensor @param {number} step @param {string} asked @param {HTMLElement} host */
  async histograms(of, tensor, step, asked, host) {
    const { context } = this;
    const { names } = await context.source.json(address("names", { run: of.run.key, rank: of.rank || null }), { signal: context.signal });
    const prefix = of.scope ? `${of.scope}/` : "";
    const own = names.filter((/** @type {any} */ info) => info.kind === "histogram" && info.name.startsWith(prefix) && info.name.endsWith(`/${tensor}`)).map((/** @type {any} */ info) => info.name);
    const found = await Promise.all(own.slice(0, 4).map((/** @type {string} */ name) => load(context, of.run, name, of.rank)));
    if (asked !== this.asked) return;
    this.pictures = found.map((one) => ({ picture: new Picture(), found: one, step }));
    host.replaceChildren(...this.pictures.map(({ picture, found: one }, which) => element("figure", null,
      element("figcaption", null, element("a", { href: context.href("histograms", { search: own[which], step }) }, shortened(own[which], 60)), element("p", { class: "note" }, one.rows ? rowText(one, rowAt(one, step)) : "none")), picture.element)));
    if (!found.length) host.replaceChildren(element("p", { class: "note" }, "No histogram of it was recorded."));
    this.draw();
  }

  /** @param {any} of @param {string} tensor @param {string} asked @param {HTMLElement} host */
  async findings(of, tensor, asked, host) {
    const { context } = this;
    const verdict = await context.source.json(address("verdict", { run: of.run.key }), { signal: context.signal });
    if (asked !== this.asked) return;
    const session = verdict.sessions.find((/** @type {any} */ one) => one.scope === of.scope && one.rank === of.rank) ?? verdict.sessions.find((/** @type {any} */ one) => one.scope === of.scope);
    const module = tensor.slice(0, Math.max(0, tensor.lastIndexOf(".")));
    const is = (/** @type {string} */ name) => name === tensor || (name === module && module !== "");
    const causes = (session?.causes ?? []).filter((/** @type {any} */ cause) => cause.where.some((/** @type {any} */ one) => is(one.name)));
    const found = (session?.findings ?? []).filter((/** @type {any} */ finding) => is(finding.name));
    const lines = [
      ...causes.map((/** @type {any} */ cause) => element("li", null, element("a", { href: context.href("verdict") }, `cause: ${cause.title}`), cause.since_step === null ? "" : `, since step ${stepText(cause.since_step)}`)),
      ...found.slice(0, MOST_FINDINGS).map((/** @type {any} */ finding) => element("li", null, element("span", { class: `level ${finding.level}` }, finding.level), ` ${finding.kind} at step ${stepText(finding.step)}: ${finding.evidence.slice(0, 600)}`)),
    ];
    host.replaceChildren(lines.length ? element("ul", null, ...lines) : element("p", { class: "note" }, "Nothing was found in this layer."),
      found.length > MOST_FINDINGS ? element("p", { class: "note" }, `and ${counted(found.length - MOST_FINDINGS, "finding")} more`) : "");
  }

  draw() {
    const width = Math.max(280, Math.min(620, (this.element.clientWidth - 40) / Math.min(2, this.pictures.length || 1)));
    for (const { picture, found, step } of this.pictures) picture.draw([found], { mode: "heat", log: true, step }, width, HEIGHT);
  }

  hide() {
    this.asked = "";
    this.element.hidden = true;
    this.pictures = [];
    this.closed();
  }
}
