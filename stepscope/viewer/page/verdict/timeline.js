/** What was found and alerted, over the steps: a strip, and the same as a table. */
import { element, shortened } from "../dom.js";
import { counted, stepText } from "../text/format.js";
import { visible } from "../text/visible.js";
import { around, nameOf } from "./links.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, LEFT, ROW] = [900, 190, 18];
const MOST_KINDS = 12;
const FIRST_ROWS = 15;

/**
 * @typedef {{step: number, last_step: number, kind: string, name: string, level: string, evidence: string, rule: string, tensors: string[], more_tensors: number, alert: boolean}} Entry
 */

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** @param {import("./links.js").Place} place @param {Entry[]} entries by step @param {number} more how many were left out */
export function timeline(place, entries, more) {
  if (!entries.length) return [element("p", { class: "note" }, "Nothing was found, and nothing was alerted.")];
  const body = element("tbody");
  const show = (/** @type {Entry[]} */ some) => body.append(...some.map((entry) => row(place, entry)));
  show(entries.slice(0, FIRST_ROWS));
  const rest = entries.length - FIRST_ROWS;
  const button = rest > 0 && element("button", { click: (/** @type {Event} */ event) => {
    show(entries.slice(FIRST_ROWS));
    /** @type {HTMLElement} */ (event.currentTarget).remove();
  } }, `Show ${counted(rest, "more")}`.replace("mores", "more")); // prettier-ignore
  const head = element("tr", null, ...["step", "what", "where", "evidence"].map((name) => element("th", { scope: "col" }, name)));
  return [strip(place, entries), element("div", { class: "scroll" }, element("table", { class: "found" }, element("thead", null, head), body)), button,
    more > 0 && element("p", { class: "note" }, `${counted(more, "finding")} more in the run.`)];
}

/** @param {import("./links.js").Place} place @param {Entry} entry */
function row(place, { step, kind, name, level, evidence, rule, tensors, more_tensors: more, alert }) {
  const link = element("a", { href: place.context.href("charts", { zoom: around(step, place.lastStep) }) }, stepText(step));
  const where = tensors.length ? tensors.flatMap((tensor) => [nameOf(place, tensor, true, step), " "]) : [name && nameOf(place, name, false)];
  if (more) where.push(`and ${more} more`);
  return element("tr", null, element("td", { class: "number" }, link),
    element("td", { title: rule || null }, element("span", { class: `level ${level}` }, level), ` ${kind}${alert ? " (alert)" : ""}`),
    element("td", null, ...where), element("td", null, evidence.slice(0, 600)));
}

/** @param {import("./links.js").Place} place @param {Entry[]} entries */
function strip(place, entries) {
  const kinds = [...new Set(entries.map(({ kind }) => kind))];
  const shown = kinds.slice(0, MOST_KINDS);
  const last = Math.max(1, place.lastStep, ...entries.map(({ last_step }) => last_step));
  const x = (/** @type {number} */ step) => LEFT + ((WIDTH - LEFT - 10) * step) / last;
  const height = shown.length * ROW + 20;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "strip", role: "img", "aria-label": `${counted(entries.length, "entry", "entries")} of ${counted(kinds.length, "kind")} over steps 0 to ${last}` });
  for (const [place_, kind] of shown.entries()) {
    const y = place_ * ROW;
    const label = shortened(kind, 28);
    picture.append(svg("text", { x: LEFT - 8, y: y + 13, "text-anchor": "end" }, label), svg("line", { x1: LEFT, x2: WIDTH - 10, y1: y + ROW / 2, y2: y + ROW / 2 }));
    for (const { step, last_step, level, name, evidence } of entries.filter((entry) => entry.kind === kind)) {
      const mark = svg("rect", { x: x(step) - 2, y: y + 4, width: Math.max(4, x(last_step) - x(step) + 4), height: ROW - 8, rx: 2, class: level });
      mark.append(svg("title", {}, visible(`step ${stepText(step)}${last_step > step ? ` to ${stepText(last_step)}` : ""}: ${name.slice(0, 80)} ${evidence.slice(0, 200)}`)));
      picture.append(mark);
    }
  }
  picture.append(svg("text", { x: LEFT, y: height - 4 }, "0"), svg("text", { x: WIDTH - 10, y: height - 4, "text-anchor": "end" }, `step ${stepText(last)}`));
  return picture;
}

