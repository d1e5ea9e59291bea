/** The histograms of one tensor over the steps, of several runs over each other, on a canvas. */
import { cssColour, element } from "../dom.js";
import { stepText } from "../text/format.js";
import { TABLE } from "../layers/scale.js";
import { axisOf } from "./axis.js";
import { rowAt, rowText } from "./found.js";
import { spread } from "./spread.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [58, 10, 6, 22];
const FONT = "11px system-ui, sans-serif";
const MOST_RIDGES = 28;
/** The outermost bands first: places among the answer's percentiles 1, 5, 25, 50, 75, 95 and 99. */
const BANDS = [[0, 6, 0.12], [1, 5, 0.2], [2, 4, 0.32]];

/** @typedef {"heat" | "ridge" | "percentiles" | "step"} Mode */
/** @typedef {import("./found.js").Found} Found */

/** @param {string} colour #rrggbb @param {number} part */
const faded = (colour, part) => `${colour}${Math.round(255 * part).toString(16).padStart(2, "0")}`;

export class Picture {
  constructor() {
    this.canvas = element("canvas", { role: "img", "aria-label": "no histogram yet" });
    this.element = element("div", { class: "histogram-picture" }, this.canvas);
  }

  /**
   * @param {Found[]} all those without a histogram are left out @param {{mode: Mode, log: boolean, step: number}} look
   * @param {number} width @param {number} height
   */
  draw(all, look, width, height) {
    const found = all.filter(({ rows }) => rows > 0);
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(height * devicePixelRatio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    if (!found.length) return;
    const axis = axisOf(found, look.log);
    const box = { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM };
    const first = Math.min(...found.map(({ columns }) => columns.step[0]));
    const last = Math.max(...found.map(({ columns, rows }) => columns.last_step[rows - 1]));
    const xOf = (/** @type {number} */ step) => box.x + (box.width * (step - first)) / (last - first || 1);
    if (look.mode === "heat") this.heat(context, found, axis, box, first, last);
    else if (look.mode === "percentiles") this.percentiles(context, found, axis, box, xOf);
    else this.ridges(context, found, axis, box, look);
    if (look.mode === "heat" || look.mode === "percentiles") this.stepAxes(context, axis, box, found.length, look.mode === "heat", first, last, xOf(Math.min(Math.max(look.step, first), last)));
    else this.valueAxis(context, axis, box);
    const words = { heat: "heat map", ridge: "ridges", percentiles: "percentiles", step: "histogram" };
    this.canvas.setAttribute("aria-label", `${words[look.mode]}, steps ${stepText(first)} to ${stepText(last)}; ${found.map((one) => `${one.run.name}, ${rowText(one, rowAt(one, look.step))}`).join("; ")}`);
  }

  /** @typedef {{x: number, y: number, width: number, height: number}} Box */

  /** Runs lie below each other: colours cannot lie over each other. @param {CanvasRenderingContext2D} context @param {Found[]} all @param {import("./axis.js").Axis} axis @param {Box} box @param {number} first @param {number} last */
  heat(context, all, axis, box, first, last) {
    const high = Math.floor(box.height / all.length) - (all.length > 1 ? 3 : 0);
    for (const [place, found] of all.entries()) {
      const picture = element("canvas", { width: Math.floor(box.width), height: Math.max(1, high) });
      const inner = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
      const image = inner.createImageData(picture.width, picture.height);
      const data = new Uint32Array(image.data.buffer);
      let drawn = -1;
      /** @type {Float64Array} */
      let pixels = new Float64Array(0);
      for (let x = 0; x < picture.width; x++) {
        const step = first + ((last - first) * x) / Math.max(1, picture.width - 1);
        if (step < found.columns.step[0] || step > found.columns.last_step[found.rows - 1]) continue;
        const row = rowAt(found, step + 1e-9);
        if (row !== drawn) {
          pixels = spread(found, row, axis, picture.height);
          drawn = row;
        }
        for (let y = 0; y < picture.height; y++) {
          const count = pixels[picture.height - 1 - y];
          if (count) data[y * picture.width + x] = TABLE[Math.min(255, Math.round(255 * Math.sqrt(count)))];
        }
      }
      inner.putImageData(image, 0, 0);
      const y = box.y + place * (high + 3);
      context.drawImage(picture, box.x, y, picture.width, picture.height);
      context.fillStyle = found.run.colour;
      if (all.length > 1) context.fillRect(box.x - 4, y, 3, high);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Found[]} all @param {import("./axis.js").Axis} axis @param {Box} box @param {(step: number) => number} xOf */
  percentiles(context, all, axis, box, xOf) {
    const yOf = (/** @type {number} */ value) => box.y + box.height * (1 - axis.place(value));
    for (const { columns, rows, run } of all) {
      const wide = columns.percentiles.length / rows;
      const known = Array.from({ length: rows }, (_, row) => row).filter((row) => !Number.isNaN(columns.mean[row]));
      const at = (/** @type {number} */ row, /** @type {number} */ which) => yOf(columns.percentiles[row * wide + which]);
      for (const [low, high, part] of BANDS) {
        context.fillStyle = faded(run.colour, part);
        context.beginPath();
        for (const row of known) context.lineTo(xOf(columns.step[row]), at(row, high));
        for (const row of [...known].reverse()) context.lineTo(xOf(columns.step[row]), at(row, low));
        context.fill();
      }
      context.strokeStyle = run.colour;
      for (const [line, dash, value] of /** @type {[number, number[], (row: number) => number][]} */ ([
        [1.5, [], (row) => at(row, 3)], [1, [2, 3], (row) => yOf(columns.min[row])], [1, [2, 3], (row) => yOf(columns.max[row])],
      ])) {
        context.lineWidth = line;
        context.setLineDash(dash);
        context.beginPath();
        for (const row of known) context.lineTo(xOf(columns.step[row]), value(row));
        context.stroke();
      }
      context.setLineDash([]);
    }
  }

  /** One outline a step, older ones further back; or only that of one step. @param {CanvasRenderingContext2D} context @param {Found[]} all @param {import("./axis.js").Axis} axis @param {Box} box @param {{mode: Mode, step: number}} look */
  ridges(context, all, axis, box, look) {
    const size = Math.max(20, Math.floor(box.width / 2));
    const count = look.mode === "step" ? 1 : Math.min(MOST_RIDGES, Math.max(...all.map(({ rows }) => rows)));
    const high = count === 1 ? box.height - 4 : box.height * 0.3;
    for (let place = 0; place < count; place++) {
      const base = count === 1 ? box.y + box.height : box.y + high + ((box.height - high) * place) / (count - 1);
      for (const found of all) {
        const row = look.mode === "step" ? rowAt(found, look.step) : Math.round((place * (found.rows - 1)) / Math.max(1, count - 1));
        const pixels = spread(found, row, axis, size);
        context.beginPath();
        context.moveTo(box.x, base);
        for (let x = 0; x < size; x++) context.lineTo(box.x + (box.width * (x + 0.5)) / size, base - high * pixels[x]);
        context.lineTo(box.x + box.width, base);
        context.fillStyle = count === 1 ? faded(found.run.colour, 0.25) : cssColour("--ground");
        context.globalAlpha = count === 1 || all.length === 1 ? 1 : 0.6;
        context.fill();
        context.globalAlpha = 1;
        context.lineWidth = look.mode !== "step" && row === rowAt(found, look.step) ? 2 : 1;
        context.strokeStyle = count === 1 ? found.run.colour : faded(found.run.colour, 0.35 + (0.65 * place) / count);
        context.stroke();
      }
    }
  }

  /** Steps below, values on the left. @param {CanvasRenderingContext2D} context @param {import("./axis.js").Axis} axis @param {Box} box @param {number} runs @param {boolean} stacked @param {number} first @param {number} last @param {number} x of the chosen step */
  stepAxes(context, axis, box, runs, stacked, first, last, x) {
    const parts = stacked ? runs : 1;
    const high = Math.floor(box.height / parts) - (parts > 1 ? 3 : 0);
    context.fillStyle = cssColour("--muted");
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let part = 0; part < parts; part++) {
      let above = Infinity;
      for (const { at, text } of axis.ticks) {
        const y = box.y + part * (high + 3) + high * (1 - at);
        if (above - y < 12 || (parts > 1 && high * Math.min(at, 1 - at) < 6)) continue; // it would reach into another part
        above = y;
        context.fillText(text, box.x - 8, Math.min(Math.max(y, 6), box.y + box.height - 4), LEFT - 10);
      }
    }
    context.textBaseline = "alphabetic";
    for (let tick = 0, before = NaN; tick <= 4; tick++) {
      const step = Math.round(first + ((last - first) * tick) / 4);
      if (step === before) continue;
      before = step;
      context.textAlign = tick === 0 ? "left" : tick === 4 ? "right" : "center";
      context.fillText(`${tick ? "" : "step "}${stepText(step)}`, box.x + (box.width * tick) / 4, box.y + box.height + 16);
    }
    context.strokeStyle = cssColour("--text");
    context.lineWidth = 1;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x, box.y);
    context.lineTo(x, box.y + box.height);
    context.stroke();
    context.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./axis.js").Axis} axis @param {Box} box */
  valueAxis(context, axis, box) {
    context.fillStyle = cssColour("--muted");
    context.textAlign = "center";
    let before = -Infinity;
    for (const { at, text } of axis.ticks) {
      const x = box.x + box.width * at;
      if (x - before < 46) continue;
      before = x;
      context.fillText(text, x, box.y + box.height + 16);
    }
  }
}
