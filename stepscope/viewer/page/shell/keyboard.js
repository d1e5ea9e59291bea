/** The page's keys, and the dialog that names them. */
import { element } from "../dom.js";

/**
 * @typedef {{keys: string, does: string, run: () => void}} Shortcut ``keys`` is one key, or "g" and a key after it
 */

/** What the views listen for themselves. @type {[where: string, keys: string, does: string][]} */
const OF_VIEWS = [
  ["a chart", "← → + − 0", "move, zoom, whole range"],
  ["a chart", "p Enter", "pin, large"],
  ["Layers", "← → ↑ ↓ Enter", "move the cursor, open the layer"],
  ["Layers", "+ − 0", "zoom, all steps"],
  ["Images", "← → Home End", "previous, next, first, last step"],
  ["Images", "[ ]", "previous, next name"],
  ["Datapoints", "← → k j", "previous, next datapoint"],
];

/** @param {EventTarget | null} target */
function isWriting(target) {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]):not([type=range]), textarea, select");
}

/**
 * Listens for shortcuts; "?" shows them.
 * @param {Shortcut[]} shortcuts
 * @returns {() => void} shows the dialog
 */
export function listenForKeys(shortcuts) {
  const rows = shortcuts.map(({ keys, does }) => element("tr", null, element("td", null, element("kbd", null, keys)), element("td", null, does)));
  const close = element("button", { click: () => dialog.close() }, "Close");
  const dialog = element(
    "dialog",
    { class: "keys", "aria-label": "keyboard shortcuts" },
    element("div", { class: "head" }, element("h2", null, "Keyboard"), close),
    element("div", { class: "columns" },
      element("table", null, element("tbody", null, ...rows)),
      element("table", null, element("tbody", null, ...OF_VIEWS.map(([where, keys, does]) =>
        element("tr", null, element("td", null, where), element("td", null, element("kbd", null, keys)), element("td", null, does)))))),
    element("details", null, element("summary", null, "Licences of other people's parts in this page"), element("pre", { tabIndex: 0 }, LICENCES)),
  );
  document.body.append(dialog);
  const show = () => {
    if (!dialog.open) dialog.showModal();
  };
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isWriting(event.target)) {
      /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (isWriting(event.target) || document.querySelector("dialog[open]")) return;
    const pressed = before ? `${before} ${event.key}` : event.key;
    const found = shortcuts.find(({ keys }) => keys === pressed);
    before = !before && event.key === "g" ? "g" : "";
    if (event.key === "?") show();
    else if (!found) return;
    else found.run();
    event.preventDefault();
  });
  return show;
}
