/** The verdict of one session: what is wrong, what speaks for it, how healthy each area is, and what it rests on. */
import { element } from "../dom.js";
import { counted, stepText } from "../text/format.js";
import { nameOf, withSteps, chartsLink } from "./links.js";
import { SmallChart } from "./small_chart.js";
import { timeline } from "./timeline.js";

const SHOWN_CAUSES = 3;
const SHOWN_NAMES = 8;
const WORDS = /** @type {Record<string, string>} */ ({ good: "healthy", warn: "warning", bad: "problem" });
const ADVICE = "with stepscope.watch(model, optimizer, run=run):\n    …  # the training loop, unchanged";

/** The state of a session in a word. @param {any} found */
export function stateOf({ state, observed }) {
  return element("span", { class: `state ${state || "unknown"}` }, WORDS[state] ?? (observed ? "no problem seen" : "no verdict"));
}

/** @param {string} text */
const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

/** @param {string} title @param {...(Node | string | null | undefined | false)} children */
const section = (title, ...children) => element("section", null, element("h3", null, title), ...children);

/** @param {string[]} lines @param {(text: string) => (string | Node)[]} [linked] */
function bullets(lines, linked = (text) => [text]) {
  return element("ul", null, ...lines.map((line) => element("li", null, ...linked(line))));
}

export class Session {
  /**
   * @param {import("../context.js").Context} context @param {import("../context.js").ChosenRun} run
   * @param {any} found one of the answer's sessions @param {any[]} alerts
   * @param {boolean} named whether its scope and rank are told
   */
  constructor(context, run, found, alerts, named) {
    this.place = { context, run: run.key, scope: found.scope, rank: found.rank, lastStep: found.last_step };
    this.run = run;
    this.found = found;
    /** @type {SmallChart[]} */
    this.charts = [];
    const parts = [found.scope && `session ${found.scope}`, found.rank && `rank ${found.rank}`].filter(Boolean).join(", ");
    this.element = element("div", { class: "session" },
      element("div", { class: `says ${found.state || "unknown"}` },
        named && element("h3", null, parts || "session without a scope"),
        element("p", { class: "verdict" }, stateOf(found), " ", sentence(found.verdict)),
        ...[...found.earlier, ...found.measured].map((/** @type {string} */ line) => element("p", { class: "note" }, line)),
        found.state !== "good" && found.observed && element("p", { class: "note" }, "What was not measured is never called healthy.")),
      !found.observed && this.howTo(),
      ...this.causes(),
      found.glance.length > 0 && section("At a glance", this.chartsOf(found.glance, found.causes[0]?.since_step ?? null)),
      found.observed && section("Health by area", this.areas()),
      section("What was found, in order", ...timeline(this.place, this.entries(alerts), found.more_findings)),
      found.time.length > 0 && section("Where the time goes", bullets(found.time)),
      found.architecture.length > 0 && section("Architecture", bullets(found.architecture)),
      found.cost.length > 0 && section("What it cost", bullets(found.cost)),
      found.left_out.length > 0 && section("What was left out, or failed", bullets(found.left_out)),
      found.text && element("details", null, element("summary", null, "The report as text"), element("pre", { class: "scroll", tabIndex: 0 }, found.text)));
  }

  howTo() {
    return element("div", { class: "how-to" },
      element("p", null, "No debug session has observed this training, so nothing can be said about its health. To get a verdict, watch the model:"),
      element("pre", null, ADVICE),
      element("p", { class: "note" }, "The loop stays as it is, and the training stays bit-identical. What the run has recorded is under Charts."));
  }

  /** @param {any[]} signals @param {number | null} since */
  chartsOf(signals, since) {
    const charts = signals.map((signal) => new SmallChart(this.place, signal, since, this.run.place));
    this.charts.push(...charts);
    return element("div", { class: "small-charts" }, ...charts.map((chart) => chart.element));
  }

  causes() {
    const { causes, observed } = this.found;
    if (!causes.length) return observed ? [section("Causes", element("p", null, "No cause was found in what was measured."))] : [];
    const shown = causes.slice(0, SHOWN_CAUSES).map((/** @type {any} */ cause, /** @type {number} */ place) => this.cause(cause, place));
    const rest = causes.slice(SHOWN_CAUSES).map((/** @type {any} */ cause, /** @type {number} */ place) => this.cause(cause, place + SHOWN_CAUSES));
    return [element("section", null, element("h3", null, causes.length > 1 ? "Most likely causes" : "Most likely cause"), ...shown,
      rest.length > 0 && element("details", null, element("summary", null, `Less likely: ${causes.slice(SHOWN_CAUSES).map((/** @type {any} */ cause) => cause.title).join(", ")}`), ...rest))];
  }

  /** @param {any} cause @param {number} place */
  cause(cause, place) {
    const names = cause.series.flatMap((/** @type {any} */ one) => one.names);
    const linked = (/** @type {string} */ text) => withSteps(this.place, text, names);
    const share = Math.round(100 * cause.confidence);
    const since = cause.since_step;
    const where = cause.where.slice(0, SHOWN_NAMES).flatMap((/** @type {any} */ one) => [nameOf(this.place, one.name, one.tensor, since), " "]);
    const more = cause.where.length + cause.more_where - Math.min(cause.where.length, SHOWN_NAMES);
    return element("article", { class: "cause", id: this.id(cause.code) },
      element("h4", null, `${place + 1}. ${sentence(cause.title)}`),
      element("p", { class: "facts" }, element("meter", { min: 0, max: 1, value: cause.confidence, "aria-label": "confidence" }), ` ${share} % sure`,
        since !== null && " · since ", since !== null && (names.length ? element("a", { href: chartsLink(this.place, names, since) }, `step ${stepText(since)}`) : `step ${stepText(since)}`),
        " · ", element("code", null, cause.code)),
      cause.where.length > 0 && element("p", null, "Where: ", ...where, more > 0 && `and ${more} more`),
      cause.advice && element("p", { class: "advice" }, element("b", null, "Try: "), cause.advice),
      element("div", { class: "arguments" },
        cause.evidence.length > 0 && element("div", null, element("h5", null, "What speaks for it"), bullets(cause.evidence, linked)),
        cause.against.length > 0 && element("div", null, element("h5", null, "What speaks against it"), bullets(cause.against, linked))),
      this.chartsOf(cause.series, since));
  }

  /** @param {string} code */
  id(code) {
    return `cause-${this.run.key}-${this.found.rank}-${this.found.scope.replace(/\W/g, "_")}-${code}`;
  }

  areas() {
    const rows = this.found.areas.map((/** @type {any} */ area) => element("tr", null, element("th", { scope: "row" }, area.name),
      element("td", null, element("span", { class: `state ${area.state || "unknown"}` }, area.word)),
      element("td", null, area.text, ...area.causes.flatMap((/** @type {string} */ code) => [" ",
        element("button", { class: "to-cause", "aria-label": `show the cause ${code}`, click: () => this.show(code) }, "↑ cause")]))));
    return element("table", { class: "areas" }, element("tbody", null, ...rows));
  }

  /** @param {string} code */
  show(code) {
    const found = document.getElementById(this.id(code));
    found?.closest("details")?.setAttribute("open", "");
    found?.scrollIntoView({ block: "start" });
  }

  /** @param {any[]} alerts @returns {import("./timeline.js").Entry[]} */
  entries(alerts) {
    const { findings } = this.found;
    const others = alerts.map((alert) => ({ step: alert.step, last_step: alert.step, kind: alert.name, name: "", level: alert.level, evidence: alert.message, rule: "", tensors: [], more_tensors: 0, alert: true }));
    return [...findings.map((/** @type {any} */ finding) => ({ ...finding, alert: false })), ...others].sort((a, b) => a.step - b.step);
  }

  recolour() {
    for (const chart of this.charts) chart.draw();
  }

  /** Loads what is new into the charts. */
  reload() {
    for (const chart of this.charts) if (chart.lines) void chart.load();
  }

  close() {
    for (const chart of this.charts) chart.close();
  }
}

/** @param {any} found */
export const steps = (found) => counted(found.steps, "step");
