/** The legend of a heat map: its colours from the smallest to the largest value, and those of what is not finite. */
import { element } from "../dom.js";
import { numberText } from "../text/format.js";
import { NAN, NAN_COLOUR, NEGATIVE, NEGATIVE_COLOUR, POSITIVE, POSITIVE_COLOUR, TABLE, UNKNOWN, ZERO_COLOUR, valueAt } from "./scale.js";

/** @param {string} colour #rrggbb @param {string} text */
function swatch(colour, text) {
  const box = element("span", { class: "swatch" });
  box.style.background = colour;
  return element("span", { class: "key" }, box, text);
}

/** @param {import("./scale.js").Scale} scale @param {Uint8Array} bits of all cells */
export function legend(scale, bits) {
  const bar = element("canvas", { width: 256, height: 1, class: "bar", "aria-hidden": "true" });
  const context = /** @type {CanvasRenderingContext2D} */ (bar.getContext("2d"));
  const image = context.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(TABLE);
  context.putImageData(image, 0, 0);
  let seen = 0;
  for (const bit of bits) seen |= bit;
  const words = { log: "logarithmic", linear: "linear", share: "share" };
  const middle = element("span", { class: "note" }, numberText(Number(valueAt(scale, 0.5).toPrecision(3))));
  return element("div", { class: "legend" }, element("span", null, numberText(Number(scale.low.toPrecision(3)))), element("span", { class: "barred" }, bar, middle),
    element("span", null, numberText(Number(scale.high.toPrecision(3)))), element("span", { class: "note" }, words[scale.kind]),
    scale.zeros && swatch(ZERO_COLOUR, "zero"),
    !!(seen & NAN) && swatch(NAN_COLOUR, "NaN"), !!(seen & UNKNOWN) && swatch(NAN_COLOUR, "NaN or ∞"),
    !!(seen & POSITIVE) && swatch(POSITIVE_COLOUR, "+∞"), !!(seen & NEGATIVE) && swatch(NEGATIVE_COLOUR, "−∞"),
    element("span", { class: "key" }, element("span", { class: "swatch hatched" }), "not measured"));
}
