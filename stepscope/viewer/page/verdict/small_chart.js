/** A small chart of one signal: one line, or one for each of a few tensors, and where a cause begins. */
import uPlot from "uplot";
import { address } from "../data/address.js";
import { axisOf, paddings, pointsOf, roomLeft } from "../charts/grid.js";
import { drawable, heights, logHeights } from "../charts/heights.js";
import { cells, union } from "../charts/joined.js";
import { lineOf } from "../charts/line.js";
import { cssColour, element, shortened } from "../dom.js";
import { numberText } from "../text/format.js";
import { chartsLink } from "./links.js";

const HEIGHT = 140;
const WIDTH = 300;
const LARGEST_RATIO = 1000;
const COLOURS = 8;
const FONT = "10px system-ui, sans-serif";

/**
 * @typedef {{signal: string, unit: string, names: string[], tensors: string[]}} Signal
 */

/** @param {number | null} tick */
function tickText(tick) {
  if (tick === null) return "";
  const size = Math.abs(tick);
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? tick.toExponential(Number(tick.toPrecision(1)) === Number(tick.toPrecision(6)) ? 0 : 1) : numberText(Number(tick.toPrecision(6)));
}

export class SmallChart {
  /** @param {import("./links.js").Place} place @param {Signal} signal @param {number | null} since @param {number} colour place of the run's colour */
  constructor(place, signal, since, colour) {
    this.place = place;
    this.signal = signal;
    this.since = since;
    this.colour = colour;
    /** @type {uPlot | null} */
    this.chart = null;
    this.host = element("div", { class: "plot", role: "img", "aria-label": shortened(signal.signal, 100) });
    this.note = element("span", { class: "note" });
    const title = `${signal.signal}${signal.unit ? ` (${signal.unit})` : ""}`;
    const several = signal.tensors.length > 1 || signal.tensors[0] !== "";
    const legend = several && element("ul", { class: "tensors" }, ...signal.tensors.map((tensor, which) =>
      element("li", { title: tensor.slice(0, 1000) }, element("span", { class: `swatch run-${which % COLOURS}` }), shortened(tensor, 28)))); // prettier-ignore
    this.element = element("figure", { class: "small-chart" },
      element("figcaption", null, element("a", { href: chartsLink(place, signal.names, since), title: "open in Charts" }, title), this.note), this.host, legend);
    this.observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      this.observer.disconnect();
      void this.load();
    });
    this.observer.observe(this.element);
  }

  async load() {
    const { context, run, rank } = this.place;
    try {
      const answers = await Promise.all(this.signal.names.map((name) =>
        context.source.columns(address("series", { run, name, rank: rank || null, width: WIDTH }), { signal: context.signal }))); // prettier-ignore
      this.lines = answers.map(lineOf);
      this.draw();
    } catch (error) {
      if (context.signal.aborted) return;
      this.note.textContent = ` ${error instanceof Error ? error.message : error}`;
    }
  }

  draw() {
    if (!this.lines || !this.host.isConnected) return;
    const { lines } = this;
    const { x, at } = union(lines.map(({ step }) => step));
    const values = lines.flatMap(({ value, low, high }) => [...(low ?? value), ...(high ?? value)]).filter(Number.isFinite);
    const positive = values.filter((value) => value > 0);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const log = positive.length === values.length && most > LARGEST_RATIO * least;
    const bad = lines.reduce((count, line) => count + line.bad.length, 0);
    this.note.textContent = [log && " log", bad && ` ${bad} × NaN or ∞`].filter(Boolean).join(",");
    const drawn = lines.map((line, which) => cells(line.value, at[which], x.length, log));
    const { divisor, columns } = drawable(drawn, log);
    const several = lines.length > 1 || this.signal.tensors[0] !== "";
    const grid = { stroke: cssColour("--grid"), width: 1 };
    const axis = { stroke: cssColour("--muted"), grid, ticks: grid, font: FONT };
    this.chart?.destroy();
    this.chart = new uPlot({
      width: Math.max(160, this.host.clientWidth || WIDTH),
      height: HEIGHT,
      padding: paddings(FONT),
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false }, y: { distr: log ? 3 : 1, range: (_, low, high) => (log ? logHeights : heights)(low, high) } },
      series: [{}, ...lines.map((_, which) => {
        const stroke = cssColour(`--run-${(several ? which : this.colour) % COLOURS}`);
        return { stroke, width: 1.5, points: pointsOf(stroke) };
      })],
      axes: [
        { ...axis, size: 28, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? tick.toLocaleString("en") : "")) },
        { ...axis, ...axisOf(log), size: roomLeft(50, FONT), values: (_, ticks) => ticks.map((tick) => tickText(tick * divisor)) },
      ],
      hooks: { draw: [(chart) => this.marks(chart)] },
    }, /** @type {any} */ ([x, ...columns]), this.host);
    const said = values.length ? `from ${numberText(least)} to ${numberText(most)}` : "without a finite value";
    this.host.setAttribute("aria-label", `${this.signal.signal} over ${x.length} steps, ${said}`);
  }

  /** Where the cause begins, and where values are not finite. @param {uPlot} chart */
  marks(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = cssColour("--bad");
    if (this.since !== null) {
      const x = Math.round(chart.valToPos(this.since, "x", true)) + 0.5;
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    for (const { step, bad } of this.lines ?? []) {
      for (const { index } of bad) ctx.fillRect(chart.valToPos(step[index], "x", true) - 1, bbox.top + bbox.height - 5, 2, 5);
    }
    ctx.restore();
  }

  close() {
    this.observer.disconnect();
    this.chart?.destroy();
  }
}
