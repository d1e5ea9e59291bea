/** One uPlot: the lines of a series, one for each run, over each other. */
import uPlot from "uplot";
import { cssColour } from "../dom.js";
import { clockTexts, durationTexts, stepTexts, tickText } from "../text/format.js";
import { runDash } from "../shell/theme.js";
import { followScale, paddings, pointsOf, roomLeft } from "./grid.js";
import { drawable, heights, logHeights } from "./heights.js";
import { cells, union } from "./joined.js";
import { placesOf } from "./line.js";
import { drawAlerts, drawBad } from "./marks.js";
import { places, startMoving } from "./moving.js";
import { smoothed } from "./smoothing.js";

const FONT = "11px system-ui, sans-serif";
/** uPlot's number for a scale with a transformation of its own: a chart can have the other kind of axis without being made anew. */
const OWN_TRANSFORMATION = 100;
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
    /** Whether the y axis is logarithmic. */
    this.log = false;
    /** @type {number[]} the places of the lines that are pale below smoothed ones, and hidden where nothing is smoothed */
    this.pale = [];
  }

  /** @param {{run: import("../parts/rank_chooser.js").OfRank, line: import("./line.js").Line, startMs: number}[]} lines @param {AlertMark[]} alerts @param {Look} look */
  draw(lines, alerts, look) {
    this.look = look;
    this.alerts = alerts;
    this.drawn = lines.map(({ run, line, startMs }) => ({ run, line, x: placesOf(line, look.axis, startMs), smooth: smoothed(line.value, look.smoothing) }));
    const { x, at } = union(this.drawn.map((one) => one.x));
    this.log = look.log && this.drawn.some(({ line }) => line.value.some((value) => value > 0));
    /** @type {import("./joined.js").Cells[]} */
    const data = [];
    for (const [which, { line, smooth }] of this.drawn.entries()) {
      const [low, high, raw] = [line.low, line.high, line.value].map((values) => (values ? cells(values, at[which], x.length, this.log) : []));
      if (line.low) data.push(low, high);
      data.push(raw, look.smoothing ? cells(smooth, at[which], x.length, this.log) : raw);
    }
    const { divisor, columns } = drawable(data, this.log);
    this.divisor = divisor;
    this.show(/** @type {any} */ ([x, ...columns]));
  }

  /** Draws in the chart that is there: making one takes several times as long. @param {uPlot.AlignedData} data */
  show(data) {
    const structure = JSON.stringify([this.drawn.map(({ run, line }) => [run.place, !!line.low]), this.look.axis]);
    if (!this.chart || structure !== this.structure) {
      this.structure = structure;
      this.chart?.destroy();
      this.chart = new uPlot(this.options(), data, this.host);
      followScale(this.chart.axes[1], () => this.log);
      startMoving(this.chart, this.handlers.zoom);
      return;
    }
    const { chart } = this;
    const smooth = this.look.smoothing > 0;
    for (const place of this.pale) if (chart.series[place].show !== smooth) chart.setSeries(place, { show: smooth });
    chart.scales.y.min = undefined; // what its transformation made of it may be that of the other kind of axis
    chart.setData(data);
  }

  /** Draws the same in the colours of the page as they are now. */
  recolour() {
    this.chart?.redraw(false);
  }

  /** Colours and the kind of the y axis are asked for whenever it draws. @returns {uPlot.Options} */
  options() {
    /** @type {uPlot.Series[]} */
    const series = [{}];
    /** @type {uPlot.Band[]} */
    const bands = [];
    this.pale = [];
    for (const { run, line } of this.drawn) {
      if (line.low) {
        bands.push({ series: [series.length + 1, series.length], fill: () => faded(run.colour, 0.2) });
        series.push({ points: { show: false } }, { points: { show: false } });
      }
      this.pale.push(series.length);
      series.push({ show: this.look.smoothing > 0, stroke: () => faded(run.colour, 0.35), width: 1, points: { show: false } });
      series.push({ stroke: () => run.colour, width: 1.5, dash: runDash(run.place), points: pointsOf(() => run.colour) });
    }
    const grid = { stroke: () => cssColour("--grid"), width: 1 };
    const axis = { stroke: () => cssColour("--muted"), grid, ticks: grid, font: FONT };
    return {
      ...this.size,
      series,
      bands,
      legend: { show: false },
      padding: paddings(FONT),
      scales: {
        x: { time: this.look.axis === "wall", range: (chart, low, high) => this.range(...endsOf(chart, low, high)) },
        y: {
          distr: /** @type {any} */ (OWN_TRANSFORMATION),
          fwd: (value) => (this.log ? Math.log10(Math.max(value, Number.MIN_VALUE)) : value),
          bwd: (place) => (this.log ? 10 ** place : place),
          range: (_, low, high) => (this.log ? logHeights : heights)(low, high),
        },
      },
      axes: [
        { ...axis, size: 28, space: (_, __, ___, last) => (this.look.axis === "step" ? labelSpace(last) : TIME_SPACE), values: (_, ticks) => PLACE_TEXTS[this.look.axis](ticks) },
        { ...axis, filter: (_, ticks) => ticks, size: roomLeft(56, FONT), values: (_, ticks) => ticks.map((tick) => (tick === null || !Number.isFinite(tick * this.divisor) ? "" : tickText(tick * this.divisor))) },
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
