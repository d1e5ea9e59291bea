/** One uPlot: the lines of a series, one for each run, over each other. */
import uPlot from "uplot";
import { cssColour } from "../dom.js";
import { clockTexts, durationTexts, stepTexts, tickText } from "../text/format.js";
import { runDash } from "../shell/theme.js";
import { axisOf, paddings, pointsOf, roomLeft } from "./grid.js";
import { drawable, heights, logHeights } from "./heights.js";
import { cells, union } from "./joined.js";
import { placesOf } from "./line.js";
import { drawAlerts, drawBad } from "./marks.js";
import { places, startMoving } from "./moving.js";
import { smoothed } from "./smoothing.js";

const FONT = "11px system-ui, sans-serif";
/** Only the cursor is shared among charts; what is pressed belongs to one. */
const SHARED = { key: "charts", setSeries: false, scales: /** @type {[string, null]} */ (["x", null]), filters: { pub: (/** @type {string} */ type) => type === "mousemove" || type === "mouseleave" } };

/**
 * @typedef {object} Look how all charts are drawn
 * @property {"step" | "relative" | "wall"} axis
 * @property {number} smoothing
 * @property {boolean} log
 * @property {[number, number] | null} zoom on the x axis
 *
 * @typedef {object} Drawn one run in a chart
 * @property {import("../parts/rank_chooser.js").OfRank} run
 * @property {import("./line.js").Line} line
 * @property {ArrayLike<number>} x
 * @property {Float64Array} smooth
 *
 * @typedef {{x: number, level: string, text: string, own: boolean}} AlertMark
 */

/** @param {string} colour #rrggbb @param {number} part */
const faded = (colour, part) => `${colour}${Math.round(255 * part).toString(16).padStart(2, "0")}`;

const TIME_SPACE = 76;
const PLACE_TEXTS = { step: stepTexts, relative: durationTexts, wall: clockTexts };

/** Pixels that a step's label takes. @param {number} last */
const labelSpace = (last) => Math.max(50, last.toLocaleString("en", { maximumFractionDigits: 0 }).length * 6.5 + 10);

/** What places there are: around a single time, uPlot shows years. @param {uPlot} chart @param {number} low @param {number} high @returns {[number, number]} */
const endsOf = ({ data: [x] }, low, high) => (x.length === 1 ? [x[0], x[0]] : [low, high]);

export class Plot {
  /**
   * @param {HTMLElement} host
   * @param {{zoom: (range: [number, number] | null) => void, cursor: (x: number | null) => void}} handlers
   */
  constructor(host, handlers) {
    this.host = host;
    this.handlers = handlers;
    /** @type {uPlot | null} */
    this.chart = null;
    this.structure = "";
    /** @type {Drawn[]} */
    this.drawn = [];
    /** @type {AlertMark[]} */
    this.alerts = [];
    /** @type {Look} */
    this.look = { axis: "step", smoothing: 0, log: false, zoom: null };
    this.size = { width: 300, height: 180 };
    /** What values are divided by to be drawn. */
    this.divisor = 1;
  }

  /** @param {{run: import("../parts/rank_chooser.js").OfRank, line: import("./line.js").Line, startMs: number}[]} lines @param {AlertMark[]} alerts @param {Look} look */
  draw(lines, alerts, look) {
    this.look = look;
    this.alerts = alerts;
    this.drawn = lines.map(({ run, line, startMs }) => ({ run, line, x: placesOf(line, look.axis, startMs), smooth: smoothed(line.value, look.smoothing) }));
    const { x, at } = union(this.drawn.map((one) => one.x));
    const log = look.log && this.drawn.some(({ line }) => line.value.some((value) => value > 0));
    /** @type {any[]} */
    const data = [x];
    for (const [which, { line, smooth }] of this.drawn.entries()) {
      if (line.low && line.high) data.push(cells(line.low, at[which], x.length, log), cells(line.high, at[which], x.length, log));
      if (look.smoothing) data.push(cells(line.value, at[which], x.length, log));
      data.push(cells(smooth, at[which], x.length, log));
    }
    const { divisor, columns } = drawable(data.slice(1), log);
    this.divisor = divisor;
    const structure = JSON.stringify([this.drawn.map(({ run, line }) => [run.colour, !!line.low]), look.axis, !!look.smoothing, log]);
    if (this.chart && structure === this.structure) {
      this.chart.setData([x, ...columns]);
      return;
    }
    this.structure = structure;
    this.chart?.destroy();
    this.chart = new uPlot(this.options(log), [x, ...columns], this.host);
    startMoving(this.chart, this.handlers.zoom);
  }

  /** @param {boolean} log @returns {uPlot.Options} */
  options(log) {
    /** @type {uPlot.Series[]} */
    const series = [{}];
    /** @type {uPlot.Band[]} */
    const bands = [];
    for (const { run, line } of this.drawn) {
      const { colour } = run;
      const dash = runDash(run.place);
      if (line.low) {
        bands.push({ series: [series.length + 1, series.length], fill: faded(colour, 0.2) });
        series.push({ points: { show: false } }, { points: { show: false } });
      }
      if (this.look.smoothing) series.push({ stroke: faded(colour, 0.35), width: 1, points: { show: false } });
      series.push({ stroke: colour, width: 1.5, dash, points: pointsOf(colour) });
    }
    const [text, grid] = [cssColour("--muted"), { stroke: cssColour("--grid"), width: 1 }];
    const axis = { stroke: text, grid, ticks: grid, font: FONT };
    return {
      ...this.size,
      series,
      bands,
      legend: { show: false },
      padding: paddings(FONT),
      scales: { x: { time: this.look.axis === "wall", range: (chart, low, high) => this.range(...endsOf(chart, low, high)) }, y: { distr: log ? 3 : 1, range: (_, low, high) => (log ? logHeights : heights)(low, high) } },
      axes: [
        { ...axis, size: 28, space: (_, __, ___, last) => (this.look.axis === "step" ? labelSpace(last) : TIME_SPACE), values: (_, ticks) => PLACE_TEXTS[this.look.axis](ticks) },
        { ...axis, ...axisOf(log), size: roomLeft(56, FONT), values: (_, ticks) => ticks.map((tick) => (tick === null || !Number.isFinite(tick * this.divisor) ? "" : tickText(tick * this.divisor))) },
      ],
      cursor: {
        drag: { x: true, y: false, setScale: false },
        sync: /** @type {any} */ (SHARED),
        points: { size: 6 },
        y: false,
        bind: { dblclick: () => () => (this.handlers.zoom(null), null) },
      },
      hooks: {
        setSelect: [(chart) => this.selected(chart)],
        setCursor: [(chart) => this.handlers.cursor(chart.cursor.left === undefined || chart.cursor.left < 0 ? null : chart.posToVal(chart.cursor.left, "x"))],
        draw: [(chart) => (drawBad(chart, this.drawn), drawAlerts(chart, this.alerts))],
      },
    };
  }

  /** @param {number} low @param {number} high @returns {[number, number]} */
  range(low, high) {
    if (this.look.zoom) return places(...this.look.zoom);
    if (low === null || low === undefined) return [0, 1];
    return places(low, high);
  }

  /** @param {uPlot} chart */
  selected(chart) {
    const { left, width } = chart.select;
    if (width < 4) return;
    const range = /** @type {[number, number]} */ ([chart.posToVal(left, "x"), chart.posToVal(left + width, "x")]);
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.handlers.zoom(range);
  }

  /** Shows another part at once, with what is loaded. @param {[number, number] | null} zoom */
  zoom(zoom) {
    this.look = { ...this.look, zoom };
    if (!this.chart) return;
    const x = this.chart.data[0];
    const [min, max] = this.range(x[0], x[x.length - 1]);
    this.chart.setScale("x", { min, max });
  }

  /** @returns {[number, number] | null} what of the x axis is seen */
  seen() {
    const { min, max } = this.chart?.scales.x ?? {};
    return min === undefined || max === undefined || min === null || max === null ? null : [min, max];
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    const size = { width: Math.max(120, Math.floor(width)), height: Math.max(80, Math.floor(height)) };
    if (size.width === this.size.width && size.height === this.size.height) return;
    this.size = size;
    this.chart?.setSize(size);
  }

  close() {
    this.chart?.destroy();
    this.chart = null;
  }
}
