/** A chart as a file: CSV of all its points, PNG of what is seen. */
import { cssColour } from "../dom.js";
import { nameText } from "../text/visible.js";

/** A cell of CSV. @param {string} text */
export const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** A number that reads back as the same. @param {number} value */
const exact = (value) => (value === Infinity ? "inf" : value === -Infinity ? "-inf" : Number.isNaN(value) ? "nan" : String(value));

/**
 * @param {string} name of the series
 * @param {{run: string, answer: import("../data/columns.js").Columns}[]} runs
 * @returns {string} run, name, step, time in ms since 1970, value; of a range of steps its mean, least and highest value
 */
export function csvOf(name, runs) {
  const rows = ["run,name,step,time_ms,value,min,max"];
  for (const { run, answer } of runs) {
    const { step, time_ms: time, value, mean, last, min, max } = answer.columns;
    const numbers = value ?? mean ?? last;
    for (let index = 0; index < step.length; index++) {
      rows.push(`${quoted(run)},${quoted(name)},${step[index]},${time[index]},${exact(numbers[index])},${min ? exact(min[index]) : ""},${max ? exact(max[index]) : ""}`);
    }
  }
  return `${rows.join("\n")}\n`;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {string} title
 * @param {{name: string, colour: string}[]} runs
 * @returns {Promise<Blob | null>}
 */
export function pngOf(canvas, title, runs) {
  const ratio = devicePixelRatio;
  const [head, foot] = [26 * ratio, 22 * ratio];
  const picture = document.createElement("canvas");
  picture.width = canvas.width;
  picture.height = canvas.height + head + foot;
  const context = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
  context.fillStyle = cssColour("--ground");
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(canvas, 0, head);
  context.font = `${12 * ratio}px system-ui, sans-serif`;
  context.fillStyle = cssColour("--text");
  context.fillText(nameText(title), 8 * ratio, 17 * ratio, picture.width - 16 * ratio);
  let left = 8 * ratio;
  for (const { name, colour } of runs) {
    context.fillStyle = colour;
    context.fillRect(left, canvas.height + head + 7 * ratio, 9 * ratio, 9 * ratio);
    context.fillStyle = cssColour("--text");
    const shown = nameText(name);
    context.fillText(shown, left + 13 * ratio, canvas.height + head + 16 * ratio);
    left += context.measureText(shown).width + 28 * ratio;
  }
  return new Promise((resolve) => picture.toBlob(resolve, "image/png"));
}
