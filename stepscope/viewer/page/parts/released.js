/**
 * Redrawing that takes nothing away from who is at work: no click, no focus, no selected text. The browser tells a click
 * only where what was pressed is still there when the button is let go: a row that is made anew in between takes it along.
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
  setTimeout(drawWaiting); // the click comes after the release
}

function drawWaiting() {
  if (pressed) return; // again: the next release draws
  const draws = [...waiting];
  waiting.clear();
  draws.forEach(([host, draw]) => drawIn(host, draw));
}

// Where there is no document, in Node.js, nothing is pressed.
globalThis.document?.addEventListener("pointerdown", press, true);
for (const name of ["pointerup", "pointercancel"]) globalThis.document?.addEventListener(name, release, true);
globalThis.document?.addEventListener("selectionchange", () => drawWaiting());

/** Whether text in an element is selected, by somebody who copies it. @param {Element} host */
function isSelected(host) {
  const selection = document.getSelection();
  return !!selection && !selection.isCollapsed && host.contains(selection.anchorNode) && host.contains(selection.focusNode);
}

/**
 * Draws now, or once nothing is pressed in an element any more; of several draws that wait, the latest.
 * @param {Element} host
 * @param {() => void} draw
 */
export function whenReleased(host, draw) {
  if (pressed && host.contains(pressed)) waiting.set(host, draw);
  else drawIn(host, draw);
}

/**
 * Draws what a run has new as ``whenReleased``, and not before selected text in the element was copied.
 * @param {Element} host
 * @param {() => void} draw
 */
export function whenRead(host, draw) {
  if (isSelected(host)) waiting.set(host, () => whenRead(host, draw));
  else whenReleased(host, draw);
}

/** @param {Element} host @param {() => void} draw */
function drawIn(host, draw) {
  waiting.delete(host);
  keepFocus(host, draw);
}

/**
 * Draws an element anew, and gives the focus to what says the same as what had it.
 * @param {Element} host
 * @param {() => void} draw
 */
export function keepFocus(host, draw) {
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement) || focused === host || !host.contains(focused)) {
    draw();
    return;
  }
  const place = alike(host, focused).indexOf(focused);
  draw();
  if (document.activeElement === focused) return;
  const found = focused.isConnected ? [focused] : alike(host, focused);
  (found[place] ?? found[0])?.focus({ preventScroll: true });
}

/** @param {Element} host @param {HTMLElement} one @returns {HTMLElement[]} */
function alike(host, one) {
  const said = (/** @type {HTMLElement} */ found) => found.dataset.column ?? found.getAttribute("aria-label") ?? found.textContent;
  return [...host.querySelectorAll(one.tagName)].filter((found) => found instanceof HTMLElement && said(found) === said(one)).map((found) => /** @type {HTMLElement} */ (found));
}
