/** What is shown of a text, a table and a curve: their steps, and each run's at the chosen one. */
import { address } from "../data/address.js";
import { jsonNumber } from "../data/columns.js";
import { dataTable } from "../parts/data_table.js";
import { element } from "../dom.js";
import { counted, stepText, timeText } from "../text/format.js";
import { markdown } from "../text/markdown.js";
import { SmallLines } from "../parts/small_lines.js";

/**
 * @typedef {{seq: number, step: number, time_ms: number, [content: string]: any}} Entry
 * @typedef {{run: import("../context.js").ChosenRun, rank: number | null, entries: Entry[]}} OfRun
 * @typedef {{element: HTMLElement, close?: () => void}} Made
 * @typedef {(context: import("../context.js").Context, name: string, runs: OfRun[]) => Promise<Made>} Show
 */

/** @type {{text: Show, table: Show, curve: Show}} */
export const CONTENTS = { text: texts, table: tables, curve: curves };

const MOST_CHARACTERS = 300_000;
const MARKDOWN = /^#{1,6}\s|^\s*[-*+]\s|\*\*|`|\]\(http|^\|/m;

/**
 * The entry of a run at a step, or before it, with its content.
 * @param {import("../context.js").Context} context @param {string} path @param {string} name @param {OfRun} ofRun @param {number} step
 * @returns {Promise<Entry | null>}
 */
async function entryAt({ source, signal }, path, name, { run, rank, entries }, step) {
  const entry = entries.filter((one) => one.step <= step).at(-1);
  if (!entry || "error" in entry || Object.keys(entry).length > 3) return entry ?? null;
  return { ...entry, ...(await source.json(address(path, { run: run.key, name, rank, seq: entry.seq }), { signal })) };
}

/**
 * A slider over the steps of all runs, and what is drawn for the chosen one.
 * @param {import("../context.js").Context} context @param {OfRun[]} runs @param {(step: number) => Promise<HTMLElement[]>} draw
 * @param {...HTMLElement} tools
 */
async function bySteps({ params, fail }, runs, draw, ...tools) {
  const steps = [...new Set(runs.flatMap(({ entries }) => entries.map(({ step }) => step)))].sort((a, b) => a - b);
  const wanted = params.get("step");
  let place = wanted ? Math.max(0, steps.filter((step) => step <= Number(wanted)).length - 1) : steps.length - 1;
  const said = element("output", { class: "step" });
  const slider = element("input", { type: "range", min: "0", max: String(steps.length - 1), "aria-label": "step", hidden: steps.length < 2, input: () => go(Number(slider.value)) });
  const inner = element("div", { class: "contents" });
  async function show() {
    slider.value = String(place);
    said.textContent = `step ${stepText(steps[place])}${steps.length > 1 ? ` · ${place + 1} of ${steps.length}` : ""}`;
    slider.setAttribute("aria-valuetext", `step ${stepText(steps[place])}`);
    const at = place;
    const made = await draw(steps[place]);
    if (at === place) inner.replaceChildren(...made);
  }
  function go(/** @type {number} */ wanted) {
    place = wanted;
    params.set({ step: steps[place] }, true);
    show().catch(fail);
  }
  await show();
  return element("div", null, element("div", { class: "bar" }, slider, said, ...tools), inner);
}

/** @param {OfRun} ofRun @param {Entry | null} entry @param {...import("../dom.js").Child} content */
function section({ run }, entry, ...content) {
  const error = entry?.error && element("p", { class: "bad" }, entry.error);
  return element("section", { class: "of-run" },
    element("h3", null, element("span", { class: `swatch run-${run.place % 8}` }), " ", element("bdi", null, run.name), " ",
      element("span", { class: "note" }, entry ? `step ${stepText(entry.step)}, ${timeText(entry.time_ms)}` : "nothing up to this step")),
    error, ...(entry && !entry.error ? content : []));
}

/** A text, of a very long one its beginning: browsers take seconds to lay one out. @param {string} text @param {boolean} plain */
function contents(text, plain) {
  const begin = text.slice(0, MOST_CHARACTERS).replace(/\p{Surrogate}$/u, "");
  const shown = !plain && MARKDOWN.test(begin) ? markdown(begin) : element("pre", { class: "text" }, begin);
  if (text.length <= MOST_CHARACTERS) return shown;
  const all = element("button", { click: () => made.replaceChildren(element("pre", { class: "text" }, text)) }, "Show all as plain text");
  const made = element("div", null, shown, element("p", { class: "note" }, `the first ${MOST_CHARACTERS.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters `, all));
  return made;
}

/** @type {Show} */
async function texts(context, name, runs) {
  const plain = element("input", { type: "checkbox", checked: context.params.get("plain") === "1" });
  const made = element("div", null);
  const draw = async (/** @type {number} */ step) => Promise.all(runs.map(async (ofRun) => {
    const entry = await entryAt(context, "texts", name, ofRun, step);
    const text = entry?.text ?? "";
    return section(ofRun, entry, contents(text, plain.checked));
  }));
  const all = async () => made.replaceChildren(await bySteps(context, runs, draw, element("label", null, plain, " as plain text")));
  plain.addEventListener("change", () => {
    context.params.set({ plain: plain.checked }, true);
    all().catch(context.fail);
  });
  await all();
  return { element: made };
}

/** @type {Show} */
async function tables(context, name, runs) {
  const draw = async (/** @type {number} */ step) => Promise.all(runs.map(async (ofRun) => {
    const entry = await entryAt(context, "tables", name, ofRun, step);
    return section(ofRun, entry, entry?.columns && dataTable(entry.columns, entry.rows, { count: entry.row_count }));
  }));
  return { element: await bySteps(context, runs, draw) };
}

/** How many points a curve has, and of how many there is nothing to draw. @param {any[]} heights */
function pointsText(heights) {
  const undrawn = heights.filter((height) => !Number.isFinite(jsonNumber(height))).length;
  return `${counted(heights.length, "point")}${undrawn ? `, ${undrawn.toLocaleString("en")} of them NaN or infinite` : ""}`;
}

/** @type {Show} */
async function curves(context, name, runs) {
  const lines = new SmallLines(name);
  lines.element.classList.add("large");
  const draw = async (/** @type {number} */ step) => {
    const found = await Promise.all(runs.map((ofRun) => entryAt(context, "curves", name, ofRun, step)));
    const numbers = (/** @type {any[]} */ values) => Float64Array.from(values, (value) => jsonNumber(value) ?? NaN);
    const drawn = found.flatMap((entry, place) => entry?.x ? [{ x: numbers(entry.x), y: numbers(entry.y), colour: runs[place].run.colour, label: runs[place].run.name }] : []);
    const axes = found.find((entry) => entry?.x);
    lines.update(drawn, { x: axes?.x_label ?? "", y: axes?.y_label ?? "" });
    const title = axes && [axes.title, `${axes.y_label} over ${axes.x_label}`].filter(Boolean).join(": ");
    return [element("h3", null, title ?? name), lines.element, ...runs.map((ofRun, place) => section(ofRun, found[place], pointsText(found[place]?.y ?? [])))];
  };
  return { element: await bySteps(context, runs, draw), close: () => lines.close() };
}
