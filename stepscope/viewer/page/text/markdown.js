/** Markdown as elements: headings, lists, tables, code, emphasis and links. What is no Markdown, HTML too, stays text. */
import { append, element } from "../dom.js";

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*])[*_](?=\S)([^*_\n]+?)[*_](?!\w)|\[([^\]\n]{1,500})\]\((https?:\/\/[^\s()<>"]{1,2000})\)/g;
const BLOCKS = [
  { start: /^(```|~~~)/, read: code },
  { start: /^#{1,6}\s/, read: heading },
  { start: /^\s*([-*+]|\d{1,9}[.)])\s+/, read: list },
  { start: /^\s*>/, read: quote },
  { start: /\|/, read: table },
  { start: /^\s*([-*_])(\s*\1){2,}\s*$/, read: rule },
];
const MOST_LINES = 5000;
const [MOST_ELEMENTS, MOST_CELLS] = [10_000, 1000];
const MOST_DEPTH = 16; // browsers lay out only so many boxes within each other
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const BETWEEN = /^:?-+:?$/;

/** @typedef {{lines: string[], at: number, left: number}} Reader ``left`` is how many elements it may make within lines */

/** @param {string} text @returns {HTMLElement} */
export function markdown(text) {
  const lines = text.split(/\r\n|\r|\n/);
  const reader = { lines: lines.slice(0, MOST_LINES), at: 0, left: MOST_ELEMENTS };
  const found = filled("div", blocks(reader));
  found.className = "markdown";
  if (lines.length > MOST_LINES) found.append(element("pre", null, lines.slice(MOST_LINES).join("\n")));
  return found;
}

/** An element with any number of children: a call has room for some ten thousand. @param {keyof HTMLElementTagNameMap} tag @param {(string | HTMLElement)[]} children @returns {HTMLElement} */
function filled(tag, children) {
  const made = element(tag, null);
  for (const child of children) append(made, child);
  return made;
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
  return filled("p", inline(reader, lines.join("\n")));
}

/** @param {Reader} reader */
function heading(reader) {
  const line = reader.lines[reader.at++];
  const marks = line.search(/[^#]/);
  const text = line.slice(marks).trim().replace(/(?<!#)#+$/, "");
  return filled(/** @type {"h2"} */ (`h${Math.min(6, marks + 1)}`), inline(reader, text.trimEnd()));
}

/** @param {Reader} reader */
function code(reader) {
  const fence = reader.lines[reader.at++].slice(0, 3);
  const lines = [];
  while (reader.at < reader.lines.length && !reader.lines[reader.at].startsWith(fence)) lines.push(reader.lines[reader.at++]);
  reader.at++;
  return element("pre", null, element("code", null, lines.join("\n")));
}

/** @param {Reader} reader @param {number} [depth] @returns {HTMLElement | null} */
function list(reader, depth = 1) {
  const first = ITEM.exec(reader.lines[reader.at]);
  if (!first) return null;
  const made = element(/\d/.test(first[2]) ? "ol" : "ul", null);
  while (reader.at < reader.lines.length) {
    const item = ITEM.exec(reader.lines[reader.at]);
    if (!item || item[1].length < first[1].length) break;
    if (depth < MOST_DEPTH && item[1].length > first[1].length + 1 && made.lastElementChild) {
      const inner = list(reader, depth + 1);
      if (inner) made.lastElementChild.append(inner);
      continue;
    }
    reader.at++;
    made.append(filled("li", inline(reader, item[3])));
  }
  return made;
}

/** @param {Reader} reader */
function quote(reader) {
  const lines = [];
  while (reader.at < reader.lines.length && /^\s*>/.test(reader.lines[reader.at])) lines.push(reader.lines[reader.at++].replace(/^\s*> ?/, ""));
  return filled("blockquote", inline(reader, lines.join("\n")));
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
  const head = cells(line);
  if (!next.includes("|") || head.length > MOST_CELLS || !cells(next).every((cell) => BETWEEN.test(cell.trim()))) return null;
  reader.at += 2;
  const rows = [];
  while (reader.left > 0 && reader.at < reader.lines.length && reader.lines[reader.at].includes("|")) {
    rows.push(cells(reader.lines[reader.at++]).slice(0, head.length));
    reader.left -= head.length;
  }
  const row = (/** @type {string[]} */ texts, /** @type {"th" | "td"} */ tag) => filled("tr", texts.map((text) => filled(tag, inline(reader, text.trim()))));
  return element("table", { class: "data" }, element("thead", null, row(head, "th")), filled("tbody", rows.map((texts) => row(texts, "td"))));
}

/** @param {Reader} reader @param {string} text @returns {(string | HTMLElement)[]} */
function inline(reader, text) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (--reader.left < 0) break;
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
