/** Links from what is said of a run to the charts, steps and layers that show it. */
import { element, shortened } from "../dom.js";

const LONGEST_SEARCH = 2000;
const STEP = /\bsteps? (\d[\d,]*)/g;

/**
 * @typedef {object} Place whose things are linked to
 * @property {import("../context.js").Context} context
 * @property {string} run key
 * @property {string} scope
 * @property {number} rank
 * @property {number} lastStep
 */

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/** The zoom that shows a step with what is around it. @param {number | null | undefined} step @param {number} lastStep */
export function around(step, lastStep) {
  if (step === null || step === undefined) return null;
  const wide = Math.max(10, Math.round(lastStep / 10));
  return `${Math.max(0, step - wide)},${step + wide}`;
}

/**
 * The charts of some series, around a step.
 * @param {Place} place @param {string[]} names @param {number | null} [step]
 */
export function chartsLink({ context, rank, lastStep }, names, step) {
  let search = `/^(?:${names.map(escaped).join("|")})$/`;
  if (search.length > LONGEST_SEARCH) search = names[0].slice(0, 200);
  return context.href("charts", { search, zoom: around(step, lastStep), rank: rank || null });
}

/** A layer in the heat map. @param {Place} place @param {string} name @param {number | null} [step] @param {string} [statistic] */
export function layerLink({ context, run, scope, rank }, name, step, statistic) {
  return context.href("layers", { run, scope, rank: rank || null, row: name, step, statistic });
}

/** A sentence whose steps are links to charts. @param {Place} place @param {string} text @param {string[]} names */
export function withSteps(place, text, names) {
  if (!names.length) return [text];
  /** @type {(string | Node)[]} */
  const parts = [];
  let done = 0;
  for (const found of text.matchAll(STEP)) {
    const step = Number(found[1].replaceAll(",", ""));
    parts.push(text.slice(done, found.index), element("a", { href: chartsLink(place, names, step) }, found[0]));
    done = found.index + found[0].length;
  }
  parts.push(text.slice(done));
  return parts;
}

/** A name as code: a link where it is a layer's. @param {Place} place @param {string} name @param {boolean} tensor @param {number | null} [step] */
export function nameOf(place, name, tensor, step) {
  const code = element("code", { title: name.length > 60 ? name.slice(0, 1000) : null }, shortened(name, 60));
  return tensor ? element("a", { href: layerLink(place, name, step) }, code) : code;
}
