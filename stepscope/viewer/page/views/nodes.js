/** Debug outputs as elements: groups, tables, texts, arrays with their pictures and distributions. */
import { jsonNumber } from "../data/columns.js";
import { cellText } from "../parts/data_table.js";
import { element } from "../dom.js";
import { numberText } from "../text/format.js";

const SVG = "http://www.w3.org/2000/svg";
const LEAST_PICTURE = 192;
const AT_ONCE = 64;
const BAR = 6;
const HEIGHT = 48;
const FORMS = { image: "image", maps: "map", overlay: "over the input" };

/** @param {import("../data/source.js").Source} source @param {any[]} found */
export function nodes(source, found) {
  return element("div", { class: "nodes" }, ...found.map((node) => one(source, node)));
}

/** @param {import("../data/source.js").Source} source @param {any} node @returns {HTMLElement} */
function one(source, node) {
  if (node.kind === "group") {
    return element("details", { open: true, class: "node" }, element("summary", null, node.key), nodes(source, node.children));
  }
  const title = node.key && element("strong", null, node.key);
  if (node.kind === "table") {
    const isOne = node.rows.length === 1 && node.rows[0][0] === node.key;
    const rows = node.rows.map((/** @type {any[]} */ [name, value]) => element("tr", null, element("th", { scope: "row" }, name), element("td", { class: typeof value === "number" ? "number" : "" }, value === null ? "none" : cellText(value))));
    return element("div", { class: "node" }, !isOne && title, element("table", { class: "pairs" }, element("tbody", null, ...rows)));
  }
  if (node.kind === "array") return element("div", { class: "node" }, title, element("span", { class: "note" }, ` ${said(node)}`), pictures(source, node), bars(node));
  if (node.kind === "left_out") return element("p", { class: "note" }, `${node.count.toLocaleString("en")} more are not shown`);
  const more = node.length && element("p", { class: "note" }, `the first ${node.text.length.toLocaleString("en")} of ${node.length.toLocaleString("en")} characters`);
  return element("div", { class: "node" }, title, element("pre", { class: node.kind === "error" ? "bad" : "" }, node.text), more);
}

/** @param {any} node */
function said({ dtype, shape, statistics: found }) {
  const parts = [`${dtype} ${shape.join(" × ")}`];
  if (found.min !== null) parts.push(`${number(found.min)} to ${number(found.max)}`, `mean ${number(found.mean)}`, `std ${number(found.std)}`);
  if (found.zero && found.elements > 1) parts.push(`${numberText(Number(((100 * found.zero) / found.elements).toPrecision(3)))} % zeros`);
  if (found.nan) parts.push(`${found.nan.toLocaleString("en")} NaN (orange)`);
  if (found.pinf + found.ninf) parts.push(`${(found.pinf + found.ninf).toLocaleString("en")} infinite (pink)`);
  return parts.join(", ");
}

/** @param {any} value */
const number = (value) => numberText(jsonNumber(value));

/** @param {import("../data/source.js").Source} source @param {any} node */
function pictures(source, node) {
  if (!node.pictures.length) return null;
  return element("div", { class: "pictures" }, ...node.pictures.map((/** @type {any} */ picture) => figure(source, node, picture)));
}

/** @param {import("../data/source.js").Source} source @param {any} node @param {any} picture */
function figure(source, node, picture) {
  const factor = Math.max(1, Math.ceil(LEAST_PICTURE / Math.max(picture.width, picture.height)));
  const name = picture.caption ?? FORMS[/** @type {"maps"} */ (picture.form)];
  const caption = element("span", null);
  const alt = `${node.key}: ${name}`.slice(0, 300);
  const image = element("img", { class: "pixels fit", alt, width: picture.width * factor, height: picture.height * factor });
  image.addEventListener("error", () => image.replaceWith(element("p", { class: "bad" }, "this picture cannot be shown")), { once: true });
  let first = 0;
  const turn = (/** @type {number} */ by) => element("button", { "aria-label": by < 0 ? "previous maps" : "next maps", click: () => show(first + by * AT_ONCE) }, by < 0 ? "◀" : "▶");
  const [before, after] = [turn(-1), turn(1)];
  function show(/** @type {number} */ wanted) {
    first = wanted;
    const last = Math.min(first + AT_ONCE, picture.maps ?? 1);
    before.hidden = first === 0;
    after.hidden = !picture.maps || last >= picture.maps;
    caption.textContent = picture.maps > 1 ? `maps ${first} to ${last - 1} of ${picture.maps}, row by row${reduced(picture)}` : `${name}${reduced(picture)}`;
    if (first) image.removeAttribute("width"), image.removeAttribute("height");
    try {
      image.src = source.url(first ? `${picture.address}&map=${first}` : picture.address);
    } catch {
      image.replaceWith(element("p", { class: "note" }, "this export leaves the picture out"));
    }
  }
  show(0);
  return element("figure", null, image, element("figcaption", { class: "note" }, before, caption, after));
}

/** @param {any} picture */
const reduced = ({ block }) => (block > 1 ? `; a pixel is the largest of ${block} × ${block}` : "");

/** A row of numbers as bars from zero, of more their distribution. @param {any} node */
function bars({ key, values, statistics: { histogram } }) {
  if (values?.length > 1) {
    const numbers = values.map((/** @type {any} */ value) => jsonNumber(value));
    const text = numbers.map((/** @type {number} */ value) => numberText(value)).join(", ");
    return drawing(numbers.map((/** @type {number} */ value) => (Number.isFinite(value) ? value : 0)), `${key}: ${text}`.slice(0, 1000), numbers.map((/** @type {number} */ value, /** @type {number} */ at) => `${at}: ${numberText(value)}`));
  }
  if (!histogram || values) return null;
  const [low, size] = [histogram.low, (histogram.high - histogram.low) / histogram.counts.length];
  const titles = histogram.counts.map((/** @type {number} */ count, /** @type {number} */ at) => `${numberText(low + at * size)} to ${numberText(low + (at + 1) * size)}: ${count.toLocaleString("en")}`);
  const made = drawing(histogram.counts, `${key}: distribution from ${numberText(histogram.low)} to ${numberText(histogram.high)}`, titles);
  return element("div", { class: "distribution" }, made, element("div", { class: "ends note" }, element("span", null, numberText(histogram.low)), element("span", null, numberText(histogram.high))));
}

/** @param {number[]} values @param {string} label @param {string[]} titles */
function drawing(values, label, titles) {
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const span = high - low || 1;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${values.length * BAR} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "bars");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  for (const [at, value] of values.entries()) {
    const bar = document.createElementNS(SVG, "rect");
    const [top, bottom] = [Math.max(0, value), Math.min(0, value)].map((end) => ((high - end) / span) * HEIGHT);
    bar.setAttribute("x", String(at * BAR));
    bar.setAttribute("width", String(BAR - 1));
    bar.setAttribute("y", String(top));
    bar.setAttribute("height", String(Math.max(bottom - top, value ? 0.75 : 0)));
    const title = document.createElementNS(SVG, "title");
    title.textContent = titles[at];
    bar.append(title);
    svg.append(bar);
  }
  return /** @type {HTMLElement} */ (/** @type {unknown} */ (svg));
}
