/** Cells of layers over steps on a canvas: names on the left, steps below; a cursor, and a range that is chosen by dragging. */
import { cssColour, element, shortened } from "../dom.js";
import { stepText } from "../text/format.js";
import { pressedKey } from "./keys.js";
import { FINITE, NAN, NAN_COLOUR, NEGATIVE, NEGATIVE_COLOUR, POSITIVE, POSITIVE_COLOUR, TABLE, UNKNOWN, ZERO_COLOUR, rgba, shareOf } from "./scale.js";

const NAMES = 230;
const BELOW = 22;
const FONT = "11px system-ui, sans-serif";
const PART_OF_WINDOW = 0.62;
const HIGHEST_ROW = 28;
const HOLD = 16;
/** Of so few steps, each has its number below. */
const FEW_STEPS = 12;
const MOST_PIXELS = 16_000;

/**
 * @typedef {object} Cells the answer `layers`
 * @property {string[]} tensors
 * @property {string[]} names of the series
 * @property {number} span steps of a cell
 * @property {number} lastStep
 * @property {Float64Array} steps first step of each column
 * @property {Float32Array} low
 * @property {Float32Array} high
 * @property {Uint8Array} bits
 * @property {boolean} behind the run, which lives, is further than this
 *
 * @typedef {{row: number, step: number}} Cursor ``row`` is a place in ``rows``
 */

export class HeatMap {
  /** @param {{cursor: (cursor: Cursor) => void, open: (cursor: Cursor) => void, zoom: (range: [number, number] | null) => void}} handlers */
  constructor(handlers) {
    this.handlers = handlers;
    this.canvas = element("canvas", { class: "cells" });
    this.marks = element("canvas", { class: "marks" });
    this.element = element("div", { class: "heat-map", tabIndex: 0, role: "application", "aria-label": "heat map of layers over steps" }, this.canvas, this.marks);
    /** @type {Cells | null} */
    this.cells = null;
    /** @type {number[]} the tensors that are shown */
    this.rows = [];
    /** @type {[number, number]} */
    this.range = [0, 1];
    /** @type {Cursor | null} */
    this.cursor = null;
    /** @type {"high" | "low"} */
    this.which = "high";
    this.width = 600;
    this.dragFrom = -1;
    this.dragTo = -1;
    this.element.addEventListener("pointermove", (event) => this.moved(event));
    this.element.addEventListener("pointerdown", (event) => this.pressed(event));
    this.element.addEventListener("pointerup", (event) => this.released(event));
    this.element.addEventListener("dblclick", () => this.handlers.zoom(null));
    this.element.addEventListener("keydown", (event) => pressedKey(this, event));
  }

  get plotWidth() {
    return Math.max(50, this.width - NAMES - 8);
  }

  /** @param {Cells | null} cells @param {number[]} rows @param {[number, number]} range @param {import("./scale.js").Scale} scale */
  draw(cells, rows, range, scale) {
    this.cells = cells;
    this.rows = rows;
    this.range = range;
    this.scale = scale;
    this.rowHeight = Math.max(1, Math.min(HIGHEST_ROW, Math.floor((innerHeight * PART_OF_WINDOW) / Math.max(1, rows.length)) || 1));
    if (rows.length <= MOST_PIXELS / 4) this.rowHeight = Math.max(3, this.rowHeight);
    const height = rows.length * this.rowHeight + BELOW;
    for (const canvas of [this.canvas, this.marks]) {
      canvas.width = Math.round(this.width * devicePixelRatio);
      canvas.height = Math.round(height * devicePixelRatio);
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${height}px`;
    }
    this.element.style.height = `${height}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.width, height);
    this.hatch(context, rows.length * this.rowHeight);
    const pixels = this.pixels();
    if (pixels) {
      context.imageSmoothingEnabled = false;
      context.drawImage(pixels, NAMES, 0, this.plotWidth, rows.length * this.rowHeight);
    }
    this.labels(context);
    this.mark();
  }

  /** What was not measured shows as hatched. @param {CanvasRenderingContext2D} context @param {number} height */
  hatch(context, height) {
    context.save();
    context.beginPath();
    context.rect(NAMES, 0, this.plotWidth, height);
    context.clip();
    context.strokeStyle = cssColour("--line");
    context.beginPath();
    for (let x = NAMES - height; x < this.width; x += 8) {
      context.moveTo(x, height);
      context.lineTo(x + height, 0);
    }
    context.stroke();
    context.restore();
  }

  /** The column that each pixel shows, -1 for none. A cell is held until the next one, but not over a long gap. */
  columns() {
    const { steps, span } = /** @type {Cells} */ (this.cells);
    const gaps = Array.from(steps.subarray(1), (step, place) => step - steps[place]).sort((a, b) => a - b);
    const held = Math.max(span, HOLD * (gaps[gaps.length >> 1] ?? span));
    const at = new Int32Array(Math.floor(this.plotWidth)).fill(-1);
    let column = -1;
    for (let x = 0; x < at.length; x++) {
      const step = this.stepAt(x + 1) - 1e-9;
      while (column + 1 < steps.length && steps[column + 1] <= step) column++;
      const limit = column === steps.length - 1 ? span : held;
      if (column >= 0 && this.stepAt(x) < steps[column] + limit) at[x] = column;
    }
    return at;
  }

  pixels() {
    const { cells, scale, rows } = this;
    if (!cells || !cells.steps.length || !rows.length || !scale) return null;
    const at = this.columns();
    const picture = element("canvas", { width: at.length, height: rows.length });
    const context = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
    const image = context.createImageData(at.length, rows.length);
    const data = new Uint32Array(image.data.buffer);
    const values = cells[this.which];
    const [nan, positive, negative, zero] = [NAN_COLOUR, POSITIVE_COLOUR, NEGATIVE_COLOUR, ZERO_COLOUR].map(rgba);
    const wide = cells.steps.length;
    for (const [y, row] of rows.entries()) {
      for (let x = 0; x < at.length; x++) {
        if (at[x] < 0) continue;
        const cell = row * wide + at[x];
        const bits = cells.bits[cell];
        if (!bits) continue;
        let colour;
        if (bits & (NAN | UNKNOWN)) colour = nan;
        else if (bits & POSITIVE) colour = positive;
        else if (bits & NEGATIVE) colour = negative;
        else {
          const share = shareOf(scale, values[cell]);
          colour = share < 0 ? zero : TABLE[Math.min(255, Math.round(255 * share))];
        }
        data[y * at.length + x] = colour;
      }
    }
    context.putImageData(image, 0, 0);
    return picture;
  }

  /** @param {CanvasRenderingContext2D} context */
  labels(context) {
    const { cells, rows } = this;
    if (!cells) return;
    context.font = FONT;
    context.fillStyle = cssColour("--text");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const rowHeight = this.rowHeight ?? 12;
    const every = Math.max(1, Math.ceil(12 / rowHeight));
    for (let place = 0; place < rows.length; place += every) {
      context.fillText(shortened(cells.tensors[rows[place]], 36), NAMES - 8, (place + 0.5) * rowHeight, NAMES - 12);
    }
    const y = rows.length * rowHeight + 12;
    context.fillStyle = cssColour("--muted");
    const [first, last] = this.range;
    const parts = last - first < FEW_STEPS ? last - first : 5;
    const cell = this.plotWidth / (last + 1 - first);
    for (let tick = 0; tick <= parts; tick++) {
      const step = Math.round(first + ((last - first) * tick) / (parts || 1));
      const isEdge = cell < 40 && (tick === 0 || tick === parts);
      context.textAlign = !isEdge ? "center" : tick === 0 ? "left" : "right";
      const x = NAMES + (step - first) * cell + (!isEdge ? cell / 2 : tick === 0 ? 0 : cell);
      context.fillText(`${tick === 0 ? "step " : ""}${stepText(step)}`, x, y);
    }
  }

  /** The step at a distance from the left of the cells. @param {number} x */
  stepAt(x) {
    const [first, last] = this.range;
    return first + ((last + 1 - first) * x) / Math.floor(this.plotWidth);
  }

  /** @param {number} step */
  xOf(step) {
    const [first, last] = this.range;
    return NAMES + (this.plotWidth * (step - first)) / (last + 1 - first);
  }

  /** The column of a step, -1 for none. @param {number} step */
  columnOf(step) {
    const steps = this.cells?.steps ?? new Float64Array(0);
    let [low, high] = [0, steps.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] <= step) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** What lies at the cursor. @returns {{tensor: string, name: string, step: number, last: number, low: number, high: number, bits: number} | null} */
  at() {
    const { cells, cursor } = this;
    if (!cells || !cursor || this.rows[cursor.row] === undefined) return null;
    const row = this.rows[cursor.row];
    const column = this.columnOf(cursor.step);
    const start = column < 0 ? cursor.step : cells.steps[column];
    const cell = row * cells.steps.length + column;
    const bits = column < 0 ? 0 : cells.bits[cell];
    const finite = bits & FINITE;
    return { tensor: cells.tensors[row], name: cells.names[row], step: start, last: Math.min(start + cells.span - 1, cells.lastStep), low: finite ? cells.low[cell] : NaN, high: finite ? cells.high[cell] : NaN, bits };
  }

  /** Draws the cursor and what is being dragged. */
  mark() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.marks.getContext("2d"));
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, this.width, this.marks.height);
    const rowHeight = this.rowHeight ?? 12;
    if (this.dragTo >= 0 && Math.abs(this.dragTo - this.dragFrom) > 3) {
      context.fillStyle = `${cssColour("--link")}40`;
      context.fillRect(Math.min(this.dragFrom, this.dragTo), 0, Math.abs(this.dragTo - this.dragFrom), this.rows.length * rowHeight);
    }
    const found = this.at();
    if (!found || !this.cursor) return;
    const left = Math.max(NAMES, this.xOf(found.step));
    const right = Math.min(this.width - 8, Math.max(left + 4, this.xOf(found.last + 1)));
    if (right < left) return;
    context.strokeStyle = cssColour("--text");
    context.lineWidth = 2;
    context.strokeRect(left - 1, this.cursor.row * rowHeight - 1, right - left + 2, rowHeight + 2);
    context.fillStyle = cssColour("--text");
    context.fillRect(NAMES - 5, this.cursor.row * rowHeight, 3, rowHeight);
  }

  /** @param {PointerEvent} event @returns {Cursor & {x: number}} */
  place(event) {
    const box = this.element.getBoundingClientRect();
    const x = event.clientX - box.left;
    const row = Math.floor((event.clientY - box.top) / (this.rowHeight ?? 12));
    return { x, row: Math.min(Math.max(row, 0), this.rows.length - 1), step: Math.floor(this.stepAt(Math.min(Math.max(x - NAMES, 0), this.plotWidth - 1))) };
  }

  /** @param {PointerEvent} event */
  moved(event) {
    const { x, row, step } = this.place(event);
    if (this.dragFrom >= 0) {
      this.dragTo = Math.min(Math.max(x, NAMES), this.width - 8);
      this.mark();
      return;
    }
    this.handlers.cursor({ row, step });
  }

  /** @param {PointerEvent} event */
  pressed(event) {
    if (event.button !== 0) return;
    this.dragFrom = this.dragTo = Math.max(NAMES, this.place(event).x);
    this.element.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  released(event) {
    const [from, to] = [Math.min(this.dragFrom, this.dragTo), Math.max(this.dragFrom, this.dragTo)];
    this.dragFrom = this.dragTo = -1;
    if (from < 0) return;
    this.mark();
    if (to - from > 3) this.handlers.zoom([Math.floor(this.stepAt(from - NAMES)), Math.floor(this.stepAt(to - NAMES))]);
    else this.handlers.open(this.place(event));
  }

  /** Scrolls the cursor's row into what is seen. */
  reveal() {
    const box = this.element.parentElement;
    if (!box || !this.cursor) return;
    const y = this.cursor.row * (this.rowHeight ?? 12);
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + 30 > box.scrollTop + box.clientHeight) box.scrollTop = y + 30 - box.clientHeight;
  }
}
