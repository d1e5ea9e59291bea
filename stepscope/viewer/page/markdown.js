/** Markdown as elements: headings, lists, tables, code, emphasis and links. What is no Markdown, HTML too, stays text. */
import { element } from "./dom.js";

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*])[*_](?=\S)([^*_\n]+?)[*_](?!\w)|\[([^\]\n]{1,500})\]\((https?:\/\/[^\s()<>"]{1,2000})\)/g;
const BLOCKS = [
  { start: /^(```|~~~)/, read: code },
  { start: /^#{1,6}\s/, read: heading },
  { start: /^\s*([-*+]|\d{1,9}[.)])\s+/, read: list },
  { start: /^\s*>/, read: quote },
  { start: /^\s*\|?.*\|.*$/, read: table },
  { start: /^\s*([-*_])(\s*\1){2,}\s*$/, read: rule },
];
const MOST_LINES = 5000;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const BETWEEN = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** @typedef {{lines: string[], at: number}} Reader */

/** @param {string} text @returns {HTMLElement} */
export function markdown(text) {
  const lines = text.split(/\r\n|\r|\n/);
  const reader = { lines: lines.slice(0, MOST_LINES), at: 0 };
  const found = element("div", { class: "markdown" }, ...blocks(reader));
  if (lines.length > MOST_LINES) found.append(element("pre", null, lines.slice(MOST_LINES).join("\n")));
  return found;
}

/** @param {Reader} reader @returns {HTMLElement[]} */
function blocks(reader) {
  const found = [];
  while (reader.at < reader.lines.length) {
    const line = reader.lines[reader.at];
    if (!line.trim()) {
      reader.at++;
      continue;
    }
    const block = BLOCKS.find(({ start }) => start.test(line))?.read(reader);
    found.push(block ?? paragraph(reader));
  }
  return found;
}

/** @param {Reader} reader */
function paragraph(reader) {
  const lines = [reader.lines[reader.at++]];
  while (reader.at < reader.lines.length) {
    const line = reader.lines[reader.at];
    if (!line.trim() || BLOCKS.some(({ start, read }) => read !== table && start.test(line))) break;
    lines.push(line);
    reader.at++;
  }
  return element("p", null, ...inline(lines.join("\n")));
}

/** @param {Reader} reader */
function heading(reader) {
  const [, marks, text] = /^(#+)\s+(.*?)\s*#*$/.exec(reader.lines[reader.at++]) ?? ["", "#", ""];
  const level = /** @type {"h2"} */ (`h${Math.min(6, marks.length + 1)}`);
  return element(level, null, ...inline(text));
}

/** @param {Reader} reader */
function code(reader) {
  const fence = reader.lines[reader.at++].slice(0, 3);
  const lines = [];
  while (reader.at < reader.lines.length && !reader.lines[reader.at].startsWith(fence)) lines.push(reader.lines[reader.at++]);
  reader.at++;
  return element("pre", null, element("code", null, lines.join("\n")));
}

/** @param {Reader} reader */
function list(reader) {
  const first = ITEM.exec(reader.lines[reader.at]);
  if (!first) return null;
  const made = element(/\d/.test(first[2]) ? "ol" : "ul", null);
  while (reader.at < reader.lines.length) {
    const item = ITEM.exec(reader.lines[reader.at]);
    if (!item || item[1].length < first[1].length) break;
    if (item[1].length > first[1].length + 1 && made.lastElementChild) {
      const inner = list(reader);
      if (inner) made.lastElementChild.append(inner);
      continue;
    }
    reader.at++;
    made.append(element("li", null, ...inline(item[3])));
  }
  return made;
}

/** @param {Reader} reader */
function quote(reader) {
  const lines = [];
  while (reader.at < reader.lines.length && /^\s*>/.test(reader.lines[reader.at])) lines.push(reader.lines[reader.at++].replace(/^\s*> ?/, ""));
  return element("blockquote", null, ...inline(lines.join("\n")));
}

/** @param {Reader} reader */
function rule(reader) {
  reader.at++;
  return element("hr", null);
}

/** @param {string} line */
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/);

/** @param {Reader} reader */
function table(reader) {
  const [line, next] = [reader.lines[reader.at], reader.lines[reader.at + 1] ?? ""];
  if (!next.includes("-") || !next.includes("|") || !BETWEEN.test(next)) return null;
  reader.at += 2;
  const rows = [];
  while (reader.at < reader.lines.length && reader.lines[reader.at].includes("|")) rows.push(cells(reader.lines[reader.at++]));
  const row = (/** @type {string[]} */ texts, /** @type {"th" | "td"} */ tag) => element("tr", null, ...texts.map((text) => element(tag, null, ...inline(text.trim()))));
  return element("table", { class: "data" }, element("thead", null, row(cells(line), "th")), element("tbody", null, ...rows.map((texts) => row(texts, "td"))));
}

/** @param {string} text @returns {(string | HTMLElement)[]} */
function inline(text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(at, match.index));
    at = (match.index ?? 0) + match[0].length;
    const [, , ticked, strong, emphasis, label, url] = match;
    if (ticked !== undefined) found.push(element("code", null, ticked));
    else if (strong !== undefined) found.push(element("strong", null, strong));
    else if (emphasis !== undefined) found.push(element("em", null, emphasis));
    else found.push(element("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, label));
  }
  found.push(text.slice(at));
  return found;
}
