/** The files of the chosen runs: saved by the browser, never shown. */
import { address } from "../data/address.js";
import { element, shortened } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { counted, timeText } from "../text/format.js";

const LARGEST = 64 * 2 ** 20;

/** @param {number} bytes */
export function sizeText(bytes) {
  if (bytes < 1000) return counted(bytes, "byte");
  const power = Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${Number((bytes / 1000 ** power).toPrecision(3))} ${["kB", "MB", "GB"][power - 1]}`;
}

/** @param {import("../context.js").Context} context @returns {Promise<{element: HTMLElement}>} */
export async function filesPanel(context) {
  const { source, runs, signal } = context;
  const answers = await ofEachRun(context, runs, ({ key }) => source.json(`files?run=${key}`, { signal }));
  const rows = answers.flatMap(({ run, answer }) => answer.files.map((/** @type {any} */ file) => row(source, run, file)));
  if (!rows.length) return { element: element("p", { class: "note" }, "The chosen runs have no files. run.file(path) records one.") };
  const heads = ["run", "file", "name", "step", "size", "type", "recorded"].map((text) => element("th", { scope: "col" }, text));
  return { element: element("div", { class: "table-around" }, element("table", { class: "data" }, element("thead", null, element("tr", null, ...heads)), element("tbody", null, ...rows))) };
}

/** @param {import("../data/source.js").Source} source @param {import("../context.js").ChosenRun} run @param {any} file */
function row(source, run, file) {
  const name = shortened(file.filename, 80);
  let link = element("span", { title: "this export leaves the file out" }, name);
  try {
    if (file.size <= LARGEST) link = element("a", { href: source.url(address("file", { run: run.key, sha256: file.sha256 })), download: file.filename }, name);
    else link.title = `larger than 64 MB: it lies in the run's folder as blobs/${file.sha256.slice(0, 2)}/${file.sha256}`;
  } catch {
    // not in this export
  }
  const texts = [shortened(file.name, 80), file.step, sizeText(file.size), file.media_type, timeText(file.time_ms)];
  return element("tr", null, element("td", null, element("span", { class: `swatch run-${run.place % 8}` }), ` ${run.name}`), element("td", null, link), ...texts.map((text) => element("td", null, text)));
}
