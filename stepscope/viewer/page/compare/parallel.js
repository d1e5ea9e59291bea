/** Parallel coordinates: an axis for each number that differs, a line for each run; dragging on an axis selects. */
import { numberText } from "../text/format.js";
import { shortened } from "../dom.js";

const NS = "http://www.w3.org/2000/svg";
const [HEIGHT, TOP, SIDE] = [260, 34, 70];
/** Pixels of a letter of a title, about. */
const LETTER = 7;
const BOTTOM = HEIGHT - 22;
/** As far from an end of an axis, a pointer is taken to be at it. */
const NEAR = 8;
const MOST_AXES = 9;
/** As far apart, the numbers below two axes do not touch. */
const LEAST_APART = 104;
/** The class of a picture while somebody drags in it: it must not be drawn anew then. */
export const DRAGGED = "dragged";

/**
 * @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children
 * @returns {SVGElement}
 */
function svg(tag, attributes, ...children) {
  const made = /** @type {SVGElement} */ (document.createElementNS(NS, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/**
 * @typedef {object} Axis
 * @property {string} id
 * @property {string} title
 * @property {(number | null)[]} values of each run; null for none
 *
 * @typedef {Record<string, [number, number]>} Brushes the chosen range of each axis that has one
 */

/** How many axes have room beside each other. @param {number} width in pixels */
export const axesAcross = (width) => Math.max(2, Math.min(MOST_AXES, 1 + Math.floor((width - 2 * SIDE) / LEAST_APART)));

/** A logarithmic axis where positive values span more than two decades. @param {Axis} axis */
function scaleOf({ values }) {
  const finite = /** @type {number[]} */ (values.filter((value) => value !== null && Number.isFinite(value)));
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const log = low > 0 && high / low > 100;
  const forward = log ? Math.log10 : (/** @type {number} */ value) => value;
  const back = log ? (/** @type {number} */ value) => 10 ** value : (/** @type {number} */ value) => value;
  const [from, to] = [forward(low), forward(high)];
  return {
    low,
    high,
    log,
    y: (/** @type {number} */ value) => (to === from ? (TOP + BOTTOM) / 2 : BOTTOM - ((forward(value) - from) / (to - from)) * (BOTTOM - TOP)),
    value: (/** @type {number} */ y) => back(from + ((BOTTOM - y) / (BOTTOM - TOP)) * (to - from)),
  };
}

/**
 * @param {Axis[]} axes
 * @param {{key: string, name: string, place: number, passes: boolean}[]} runs
 * @param {Brushes} brushes
 * @param {(id: string, range: [number, number] | null) => void} brushed
 * @param {number} width in pixels
 * @returns {SVGElement}
 */
export function parallelCoordinates(axes, runs, brushes, brushed, width) {
  const label = `parallel coordinates of ${runs.length} runs over ${axes.map(({ title }) => title).join(", ").slice(0, 300)}; the table below has the same numbers`;
  const root = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "parallel", role: "img", "aria-label": label });
  const scales = axes.map(scaleOf);
  const apart = (width - 2 * SIDE) / Math.max(1, axes.length - 1);
  const x = (/** @type {number} */ place) => SIDE + place * apart;
  for (const [index, run] of runs.entries()) {
    const points = axes.map(({ values }, place) => [values[index], place]).filter(([value]) => value !== null && Number.isFinite(value));
    if (points.length < 2) continue;
    const path = points.map(([value, place]) => `${x(Number(place)).toFixed(1)},${scales[Number(place)].y(Number(value)).toFixed(1)}`).join(" ");
    root.append(svg("polyline", { points: path, class: `run run-${run.place % 8}${run.passes ? "" : " away"}` }, svg("title", {}, run.name)));
  }
  for (const [place, axis] of axes.entries()) {
    const scale = scales[place];
    const at = x(place);
    const group = svg("g", { class: "axis" });
    group.append(
      svg("line", { x1: at, x2: at, y1: TOP, y2: BOTTOM }),
      svg("text", { x: at, y: 12, class: "title" }, shortened(axis.title, Math.max(8, Math.min(22, Math.floor(apart / LETTER)))), svg("title", {}, axis.title)),
      svg("text", { x: at, y: 27 }, numberText(scale.high)),
      svg("text", { x: at, y: HEIGHT - 6 }, `${numberText(scale.low)}${scale.log ? " (log)" : ""}`),
    );
    const range = brushes[axis.id];
    if (range) group.append(svg("rect", { x: at - 9, width: 18, y: scale.y(range[1]), height: Math.max(2, scale.y(range[0]) - scale.y(range[1])), class: "brush" }));
    const grip = svg("rect", { x: at - 14, width: 28, y: TOP - NEAR, height: BOTTOM - TOP + 2 * NEAR, class: "grip" });
    drag(grip, root, scale.value, (ends) => brushed(axis.id, ends));
    group.append(grip);
    root.append(group);
  }
  return root;
}

/**
 * Draws the range while it is dragged; an end that is near an end of the axis is that end.
 * @param {SVGElement} grip @param {SVGElement} root @param {(y: number) => number} valueAt
 * @param {(ends: [number, number] | null) => void} done a click takes the range away
 */
function drag(grip, root, valueAt, done) {
  const y = (/** @type {PointerEvent} */ event) => {
    const box = root.getBoundingClientRect();
    const at = ((event.clientY - box.top) / box.height) * HEIGHT;
    return at < TOP + NEAR ? TOP : at > BOTTOM - NEAR ? BOTTOM : at;
  };
  grip.addEventListener("pointerdown", (down) => {
    const from = y(down);
    const shown = svg("rect", { x: Number(grip.getAttribute("x")) + 5, width: 18, y: from, height: 0, class: "brush" });
    const ended = new AbortController();
    const { signal } = ended;
    grip.before(shown);
    root.classList.add(DRAGGED);
    grip.setPointerCapture(down.pointerId);
    grip.addEventListener("pointermove", (move) => {
      shown.setAttribute("y", String(Math.min(from, y(move))));
      shown.setAttribute("height", String(Math.abs(y(move) - from)));
    }, { signal }); // prettier-ignore
    const end = (/** @type {PointerEvent} */ up) => {
      ended.abort();
      shown.remove();
      root.classList.remove(DRAGGED);
      const to = y(up);
      const [one, other] = [valueAt(from), valueAt(to)];
      if (up.type === "pointerup") done(Math.abs(to - from) < 4 ? null : [Math.min(one, other), Math.max(one, other)]);
    };
    grip.addEventListener("pointerup", end, { signal });
    grip.addEventListener("pointercancel", end, { signal });
  });
}
