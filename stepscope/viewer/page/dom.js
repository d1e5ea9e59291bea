/** Building elements: texts are texts, never HTML, and all that is in them can be seen. */
import { nameText, visible } from "./text/visible.js";

/**
 * @typedef {string | number | Node | null | undefined | false} Child
 */

/**
 * Makes an element. Names with a dash or colon and `role` are attributes, functions are listeners, the rest properties.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any> | null} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name === "class") made.className = value;
    else if (name === "title") made.title = visible(value);
    else if (name.startsWith("aria-")) made.setAttribute(name, visible(String(value)));
    else if (name.includes("-") || name === "role" || name === "for" || name === "scope") made.setAttribute(name, String(value));
    else /** @type {any} */ (made)[name] = value;
  }
  append(made, ...children);
  return made;
}

/** @param {Element} parent @param {...Child} children */
export function append(parent, ...children) {
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) parent.append(child instanceof Node ? child : visible(String(child)));
  }
}

/**
 * A name with all that is in it to be seen, shortened in the middle: its beginning and its end tell names apart.
 * @param {string} text
 * @param {number} [length]
 */
export function shortened(text, length = 60) {
  const name = nameText(text);
  if (name.length <= length) return name;
  const half = Math.floor((length - 1) / 2);
  return `${name.slice(0, half)}…${name.slice(-half)}`.replace(/\p{Surrogate}/gu, "");
}

/** @type {Map<string, string>} by scheme and name: asking the browser again would have it compute all styles first */
const colours = new Map();

/** @param {string} name of a CSS variable, with its dashes */
export function cssColour(name) {
  const root = document.documentElement;
  const key = `${root.dataset.scheme} ${name}`;
  const colour = colours.get(key) ?? getComputedStyle(root).getPropertyValue(name).trim();
  colours.set(key, colour);
  return colour;
}

/**
 * @param {string} text
 * @param {(text: string) => void} announce
 */
export async function copy(text, announce) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text, class: "offscreen" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("copied");
}

/**
 * Gives a file to the browser.
 * @param {string} name
 * @param {Blob | string} content or the URL of it
 */
export function download(name, content) {
  const url = typeof content === "string" ? content : URL.createObjectURL(content);
  element("a", { href: url, download: name.replace(/[^\w.-]+/g, "_").slice(0, 100) }).click();
  if (typeof content !== "string") setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * Calls a function when no call has come for a while.
 * @template {unknown[]} A
 * @param {(...values: A) => void} call
 * @param {number} ms
 * @returns {(...values: A) => void}
 */
export function afterPause(call, ms) {
  /** @type {number | undefined} */
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => call(...values), ms);
  };
}
