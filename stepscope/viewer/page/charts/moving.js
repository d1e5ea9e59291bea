/** Panning with Shift or the middle button, zooming with Ctrl or Shift and the wheel. */

const FINEST = 1e-12; // of the largest place: far above what a float64 can tell apart

/**
 * What the x axis shows: never less than ticks can tell apart, for which uPlot would make ticks for ever.
 * @param {number} low @param {number} high @returns {[number, number]}
 */
export function places(low, high) {
  const least = Math.max(Math.abs(low), Math.abs(high)) * FINEST;
  const [middle, half] = [low / 2 + high / 2, Math.max(least, low === high ? 1 : 0) / 2];
  return high - low < least || low === high ? [middle - half, middle + half] : [low, high];
}

/**
 * @param {[number, number]} range @param {number} factor below 1 zooms in @param {number} centre
 * @returns {[number, number]}
 */
export function scaled([low, high], factor, centre) {
  return [centre - (centre - low) * factor, centre + (high - centre) * factor];
}

/** @param {[number, number]} range @param {number} part of its width @returns {[number, number]} */
export function moved([low, high], part) {
  const distance = (high - low) * part;
  return [low + distance, high + distance];
}

/**
 * @param {import("uplot")} chart
 * @param {(range: [number, number]) => void} zoom
 */
export function startMoving(chart, zoom) {
  const { over } = chart;
  const seen = () => /** @type {[number, number]} */ ([chart.scales.x.min, chart.scales.x.max]);

  chart.root.addEventListener("mousedown", (event) => {
    if (!(event.shiftKey && event.button === 0) && event.button !== 1) return;
    event.stopPropagation();
    event.preventDefault();
    const [start, range, width] = [event.clientX, seen(), over.clientWidth];
    let frame = 0;
    /** @param {MouseEvent} move */
    const move = (move) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => zoom(moved(range, (start - move.clientX) / width)));
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", () => document.removeEventListener("mousemove", move), { once: true });
  }, true); // before uPlot begins a selection

  over.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const centre = chart.posToVal(event.offsetX, "x");
    zoom(scaled(seen(), (event.deltaY || event.deltaX) < 0 ? 0.8 : 1.25, centre));
  }, { passive: false });
}
