/** Where the reader is: the hash of the address, or a text of the page's own in a frame that has no address to change. */

// Trackers show pages in sandboxed frames of such addresses, where links to a hash lead nowhere.
const framed = ["blob:", "about:", "data:"].includes(location.protocol);
let own = "";

/** @returns {string} with "#" */
export function currentHash() {
  return framed ? own : location.hash;
}

/** @param {string} hash @param {boolean} [replace] makes no entry in the browser's history */
export function setHash(hash, replace = false) {
  if (framed) own = hash;
  else history[replace ? "replaceState" : "pushState"](null, "", hash);
}

/** Calls a function when the reader goes elsewhere, by a link or the browser's buttons. @param {() => void} moved */
export function whenMoved(moved) {
  window.addEventListener("hashchange", moved);
  if (!framed) return;
  document.addEventListener("click", (event) => {
    const link = /** @type {Element | null} */ (event.target)?.closest?.('a[href^="#/"]');
    if (!link) return;
    event.preventDefault();
    own = link.getAttribute("href") ?? "";
    moved();
  });
}
