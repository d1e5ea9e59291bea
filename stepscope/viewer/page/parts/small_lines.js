/** Small lines on a canvas with two axes and a mark: a series below an image, a curve. */
import { cssColour, element } from "../dom.js";
import { counted, numberText } from "../text/format.js";

/**
 * @typedef {{x: ArrayLike<number>, y: ArrayLike<number>, colour: string, label: string}} Line
 *   joined in their order; what is not finite is a gap
 */

const LEFT = 62;
const BELOW = 34;
const ABOVE = 8;
const RIGHT = 12;

export class SmallLines {
  /**
   * @param {string} label for screen readers
   * @param {(x: number) => void} [choose] the x that was clicked
   */
  constructor(label, choose) {
    this.label = label;
    this.element = element("canvas", { class: "small-lines", role: "img", "aria-label": label });
    /** @type {Line[]} */
    this.lines = [];
    /** @type {number | null} */
    this.mark = null;
    this.axes = { x: "", y: "" };
    this.range = { x: [0, 1], y: [0, 1] };
    if (choose) {
      this.element.classList.add("clickable");
      this.element.addEventListener("click", ({ offsetX }) => {
        const [low, high] = this.range.x;
        choose(low + ((offsetX - LEFT) / (this.element.clientWidth - LEFT - RIGHT)) * (high - low));
      });
    }
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.element);
  }

  /** @param {Line[]} lines @param {{x: string, y: string}} axes @param {number | null} [mark] */
  update(lines, axes, mark = null) {
    this.lines = lines;
    this.axes = axes;
    this.mark = mark;
    this.range = { x: rangeOf(lines.map(({ x }) => x)), y: rangeOf(lines.map(({ y }) => y)) };
    const said = lines.map(({ label, y }) => `${label}: ${counted(y.length, "point")}, last ${numberText(y[y.length - 1])}`);
    this.element.setAttribute("aria-label", `${this.label}. ${said.join("; ").slice(0, 500)}`);
    this.draw();
  }

  /** @param {number | null} x */
  moveMark(x) {
    this.mark = x;
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const pen = this.element.getContext("2d");
    if (!width || !height || !pen) return;
    const ratio = window.devicePixelRatio || 1;
    this.element.width = width * ratio;
    this.element.height = height * ratio;
    pen.scale(ratio, ratio);
    const [[left, right], [low, high]] = [this.range.x, this.range.y];
    const across = (/** @type {number} */ x) => LEFT + ((x - left) / (right - left)) * (width - LEFT - RIGHT);
    const up = (/** @type {number} */ y) => height - BELOW - ((y - low) / (high - low)) * (height - BELOW - ABOVE);
    this.drawAxes(pen, across, up);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - 1, ABOVE - 2, width - LEFT - RIGHT + 2, height - BELOW - ABOVE + 4);
    pen.clip();
    pen.lineWidth = 1.5;
    for (const { x, y, colour } of this.lines) drawLine(pen, x, y, colour, across, up);
    if (this.mark !== null) {
      pen.strokeStyle = cssColour("--text");
      pen.setLineDash([4, 3]);
      pen.beginPath();
      const at = across(Math.min(right, Math.max(left, this.mark))); // an image may come after the last value
      pen.moveTo(at, 0);
      pen.lineTo(at, height);
      pen.stroke();
    }
    pen.restore();
  }

  /** @param {CanvasRenderingContext2D} pen @param {(x: number) => number} across @param {(y: number) => number} up */
  drawAxes(pen, across, up) {
    const { clientWidth: width, clientHeight: height } = this.element;
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = cssColour("--muted");
    pen.strokeStyle = cssColour("--grid");
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const y of ticks(this.range.y, Math.max(2, Math.floor(height / 44)))) {
      pen.fillText(numberText(y), LEFT - 6, up(y));
      line(pen, LEFT, up(y), width - RIGHT, up(y));
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const x of ticks(this.range.x, Math.max(2, Math.floor(width / 110)))) {
      const half = pen.measureText(numberText(x)).width / 2;
      pen.fillText(numberText(x), Math.min(across(x), width - half), height - BELOW + 4);
      line(pen, across(x), ABOVE, across(x), height - BELOW);
    }
    pen.textAlign = "right";
    pen.fillText(this.axes.x.slice(0, 80), width - RIGHT, height - 14);
  }

  close() {
    this.sizes.disconnect();
  }
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} toX @param {number} toY */
function line(pen, x, y, toX, toY) {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

/**
 * @param {CanvasRenderingContext2D} pen @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {string} colour
 * @param {(x: number) => number} across @param {(y: number) => number} up
 */
function drawLine(pen, x, y, colour, across, up) {
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.beginPath();
  let drawing = false;
  for (let place = 0; place < x.length; place++) {
    const known = Number.isFinite(x[place]) && Number.isFinite(y[place]);
    if (known && drawing) pen.lineTo(across(x[place]), up(y[place]));
    else if (known) pen.moveTo(across(x[place]), up(y[place]));
    if (known && !drawing && !Number.isFinite(y[place + 1])) pen.fillRect(across(x[place]) - 1.5, up(y[place]) - 1.5, 3, 3);
    drawing = known;
  }
  pen.stroke();
}

/** The range of finite values, never empty. @param {ArrayLike<number>[]} columns @returns {[number, number]} */
function rangeOf(columns) {
  let [low, high] = [Infinity, -Infinity];
  for (const column of columns) {
    for (let place = 0; place < column.length; place++) {
      const value = column[place];
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  const margin = high > low ? 0 : Math.abs(low) / 10 || 1;
  return [low - margin, high + margin];
}

/** Round numbers inside a range. @param {number[]} range @param {number} most @returns {number[]} */
export function ticks([low, high], most) {
  const rough = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((wanted) => wanted >= rough) ?? rough;
  const found = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9 && found.length < 50; place++) {
    found.push(Number((place * step).toPrecision(12)));
  }
  return found;
}
