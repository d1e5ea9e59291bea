/** One datapoint: its sections, those of another epoch or run beside it, and what differs. */
import { dataTable } from "../parts/data_table.js";
import { element } from "../dom.js";
import { epochText } from "./datapoint_epochs.js";
import { short } from "./datapoint_list.js";
import { nodes } from "./nodes.js";

/** @type {[string, string][]} */
const SECTIONS = [["inputs", "Inputs"], ["labels", "Labels and outputs"], ["meta_info", "Meta information"], ["debug", "Debug outputs"]];

/**
 * @param {import("../context.js").Context} context
 * @param {import("./datapoint_list.js").EpochContents} contents
 * @param {number} idx
 * @param {{only: string, move: (by: number) => void}} options ``only`` is the one debugger to show
 */
export async function datapointPanel(context, contents, idx, { only, move }) {
  const sides = contents.sides();
  const found = await Promise.all(sides.map((side) => contents.datapoint(side, idx).catch((error) => ({ error: error.message }))));
  const columns = sides.map((side, place) => column(context, side, found[place], only, sides.length > 1));
  return element("div", null,
    element("div", { class: "bar" },
      element("button", { "aria-label": "previous datapoint", title: "previous (←)", click: () => move(-1) }, "◀"),
      element("h2", null, `Datapoint ${idx}`),
      element("button", { "aria-label": "next datapoint", title: "next (→)", click: () => move(1) }, "▶"),
      verdictLine(contents, idx)),
    contents.beside && changesPart(contents, idx),
    element("div", { class: "sides" }, ...columns));
}

/** @param {import("./datapoint_list.js").EpochContents} contents @param {number} idx */
function verdictLine(contents, idx) {
  const verdict = contents.verdicts[contents.datapoints.indexOf(idx)];
  if (!verdict || verdict.correct === null) return element("span", { class: "note" }, contents.reading ? "reading …" : "not judged");
  const said = [verdict.label !== null && `label ${verdict.label}`, verdict.prediction !== null && `predicted ${verdict.prediction}`, verdict.loss !== null && `loss ${short(verdict.loss)}`];
  return element("span", null, element("strong", { class: verdict.correct ? "good" : "bad" }, verdict.correct ? "right" : "wrong"), ` ${said.filter(Boolean).join(", ")}`);
}

/** @param {import("../context.js").Context} context @param {import("./datapoint_epochs.js").Epoch} side @param {any} found @param {string} only @param {boolean} named */
function column({ source }, side, found, only, named) {
  const title = named && element("h3", { class: "side" }, element("span", { class: `swatch run-${side.run.place % 8}` }), ` ${side.run.name}: ${epochText(side)}`);
  if (found.error) return element("div", { class: "side-column" }, title, element("p", { class: "bad" }, found.error));
  const parts = SECTIONS.map(([name, heading]) => {
    const shown = found.sections[name].filter((/** @type {any} */ node) => name !== "debug" || !only || node.key === only);
    return shown.length > 0 && element("section", { class: `outputs ${name}` }, element("h3", null, heading), nodes(source, shown));
  });
  const empty = parts.every((part) => !part) && element("p", { class: "note" }, "Nothing was kept of this datapoint.");
  return element("div", { class: "side-column" }, title, ...parts, empty);
}

/** @param {import("./datapoint_list.js").EpochContents} contents @param {number} idx */
function changesPart(contents, idx) {
  const inner = element("div", null, element("p", { class: "note" }, "comparing …"));
  const part = element("details", { class: "changes", open: true }, element("summary", null, "What changed most"), inner);
  contents.changesOf(idx).then((found) => {
    const rows = found.changes.map((/** @type {any} */ one) => [one.place, one.change, one.size, one.max_abs, one.cosine, one.a, one.b]);
    inner.replaceChildren(
      element("p", { class: "note" }, rows.length ? `${found.different} of ${found.values} values differ; relative is ‖b − a‖ / ‖a‖` : "Nothing differs."),
      ...(rows.length ? [dataTable(["where", "change", "relative", "largest", "cosine", "a", "b"], rows)] : []));
  }, (error) => inner.replaceChildren(element("p", { class: "bad" }, error.message)));
  return part;
}
