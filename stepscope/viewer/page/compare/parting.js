/** Where two runs part: settings that differ, and series in the order in which they do, with links to their charts. */
import { address } from "../data/address.js";
import { jsonNumber } from "../data/columns.js";
import { element, shortened } from "../dom.js";
import { counted, numberText, stepText } from "../text/format.js";

const SHOWN = 30;

/**
 * @param {import("../context.js").Context} context
 * @param {import("../context.js").ChosenRun} first
 * @param {import("../context.js").ChosenRun} second
 * @returns {Promise<HTMLElement>}
 */
export async function partingOf(context, first, second) {
  const found = await context.source.json(address("parting", { a: first.key, b: second.key }), { signal: context.signal });
  const series = [...found.sessions.flatMap((/** @type {any} */ session) => session.series), ...found.others.series];
  const compared = found.sessions.reduce((/** @type {number} */ all, /** @type {any} */ one) => all + one.compared, found.others.compared);
  const settings = [...found.config, ...found.sessions.flatMap((/** @type {any} */ session) => session.settings)];
  series.sort((a, b) => Number(a.beyond_noise === null) - Number(b.beyond_noise === null) || (a.beyond_noise ?? a.since_step) - (b.beyond_noise ?? b.since_step));
  const names = [first.name, second.name].map((name) => shortened(name, 40));
  const [rank, otherRank] = found.ranks;
  return element("div", null,
    rank !== otherRank && element("p", { class: "note" }, `Rank ${rank} of ${names[0]} is compared with rank ${otherRank} of ${names[1]}: the lowest that each run has.`),
    element("h3", null, settings.length ? counted(settings.length, "setting that differs", "settings that differ") : "No setting that is known differs"),
    settings.length > 0 && table(["setting", ...names], settings.slice(0, 200).map((one) => [one.name, String(one.first), String(one.second)])),
    element("h3", null, series.length ? `Of ${counted(compared, "series", "series")} ${series.length.toLocaleString("en")} differ; first:` : compared ? `${counted(compared, "series", "series")} known of both: all are equal at their common steps` : "No series is known of both"),
    series.length > 0 && table(["series", "differs from step", "beyond noise from step", ...names], series.slice(0, SHOWN).map((one) => [
      link(context, one, first, second), stepText(one.since_step), one.beyond_noise === null ? "never" : stepText(one.beyond_noise),
      numberText(jsonNumber(one.first)), numberText(jsonNumber(one.second)),
    ])),
    series.length > SHOWN && element("p", { class: "note" }, `and ${counted(series.length - SHOWN, "more series", "more series")}`),
    found.left_out > 0 && element("p", { class: "note" }, `${counted(found.left_out, "series", "series")} of the loop's own were not compared.`),
  );
}

/** @param {import("../context.js").Context} context @param {any} one @param {import("../context.js").ChosenRun} first @param {import("../context.js").ChosenRun} second */
function link(context, one, first, second) {
  const name = one.names[0] || one.names[1];
  if (!name) return shortened(one.name, 80);
  return element("a", { href: context.href("charts", { runs: `${first.key},${second.key}`, search: name }), title: one.name }, shortened(one.name, 80));
}

/** @param {string | Node} cell */
const isNumber = (cell) => typeof cell === "string" && /^[-−]?[\d,.]+(e[-+−]?\d+)?( [kMGT]?B)?$|^(NaN|[-−+]?∞)$/.test(cell);

/** Numbers stand at the right. @param {string[]} heads @param {(string | Node)[][]} rows */
export function table(heads, rows) {
  const right = heads.map((_, place) => rows.length > 0 && rows.every((cells) => isNumber(cells[place])));
  return element("div", { class: "scrolled", tabIndex: 0, role: "region", "aria-label": heads[0] },
    element("table", { class: "plain" },
      element("thead", null, element("tr", null, ...heads.map((head, place) => element("th", { scope: "col", class: right[place] ? "number" : "" }, head)))),
      element("tbody", null, ...rows.map((cells) => element("tr", null, ...cells.map((cell) => element("td", { class: isNumber(cell) ? "number" : "" }, cell)))))));
}
