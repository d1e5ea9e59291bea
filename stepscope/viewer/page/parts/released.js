/**
 * Redrawing that takes no click away. The browser tells a click only where what was pressed is still there when the
 * button is let go: a row that is made anew in between takes the click with it.
 */

/** @type {Node | null} what a button, finger or pen presses now */
let pressed = null;
/** @type {Map<Element, () => void>} the latest that is to be drawn, by its place */
const waiting = new Map();

/** @param {Event} event */
function press(event) {
  pressed = /** @type {Node} */ (event.target);
}

function release() {
  pressed = null;
  // The click comes after the release.
  setTimeout(() => {
    if (pressed) return; // again: the next release draws
    const draws = [...waiting.values()];
    waiting.clear();
    draws.forEach((draw) => draw());
  });
}

// Where there is no document, in Node.js, nothing is pressed.
globalThis.document?.addEventListener("pointerdown", press, true);
for (const name of ["pointerup", "pointercancel"]) globalThis.document?.addEventListener(name, release, true);

/**
 * Draws now, or once nothing is pressed in an element any more; of several draws that wait, the latest.
 * @param {Element} host
 * @param {() => void} draw
 */
export function whenReleased(host, draw) {
  if (pressed && host.contains(pressed)) {
    waiting.set(host, draw);
    return;
  }
  waiting.delete(host);
  draw();
}
