/** Light and dark: as the system says, or as the reader chose. */
import { cssColour, element } from "../dom.js";

const KEY = "stepscope.scheme";
const RUN_COLOURS = 8;
const root = document.documentElement;

/** Storage can be forbidden, for example in an embedded page. @param {() => any} call */
function quietly(call) {
  try {
    return call();
  } catch {
    return null;
  }
}

/**
 * A button that switches the scheme.
 * @param {() => void} changed called after each change, also by the system
 */
export function schemeSwitch(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = quietly(() => localStorage.getItem(KEY));
  const show = () => {
    root.dataset.scheme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
  };
  show();
  const button = element("button", { class: "icon", title: "light or dark (t)", "aria-label": "switch between light and dark" }, "◐");
  button.addEventListener("click", () => {
    chosen = root.dataset.scheme === "dark" ? "light" : "dark";
    quietly(() => localStorage.setItem(KEY, chosen ?? ""));
    show();
    changed();
  });
  system.addEventListener("change", () => {
    show();
    changed();
  });
  return button;
}

/** The colour of a run by its place: Okabe and Ito's eight, which the colour-blind can tell apart. @param {number} place */
export function runColour(place) {
  return cssColour(`--run-${place % RUN_COLOURS}`);
}

/** The class that gives an element the colour of a run. @param {number} place */
export function runClass(place) {
  return `run-${place % RUN_COLOURS}`;
}

/** Beyond eight runs, lines are dashed. @param {number} place @returns {number[] | undefined} */
export function runDash(place) {
  return [undefined, [8, 4], [2, 3], [8, 3, 2, 3]][Math.floor(place / RUN_COLOURS) % 4];
}
