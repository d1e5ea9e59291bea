/** A table that is sorted by a click on a column's name; rows beyond the first hundreds come when they are asked for. */
import { element } from "../dom.js";
import { counted, numberText } from "../text/format.js";

const AT_ONCE = 300;

/** @typedef {string | number | boolean | null} Cell NaN and infinities as strings */

/**
 * @param {string[]} columns
 * @param {Cell[][]} rows
 * @param {object} [options]
 * @param {number} [options.count] of all rows, where some were left out
 * @param {(row: Cell[]) => void} [options.choose] a row was chosen
 * @returns {HTMLElement}
 */
export function dataTable(columns, rows, { count = rows.length, choose } = {}) {
  let order = rows.map((_, place) => place);
  let [by, down, shown] = [-1, false, AT_ONCE];
  const body = element("tbody", null);
  const heads = columns.map((name, place) =>
    element("th", { scope: "col", class: rows.some((row) => typeof row[place] === "number") ? "number" : "" }, element("button", { class: "sort", click: () => sort(place) }, name)));
  const more = element("button", { click: () => ((shown += 10 * AT_ONCE), draw()) });
  const left = count > rows.length ? element("p", { class: "note" }, `the first ${counted(rows.length, "row")} of ${count.toLocaleString("en")}`) : null;

  function sort(/** @type {number} */ place) {
    down = by === place && !down;
    by = place;
    order = rows.map((_, at) => at).sort((a, b) => compare(rows[a][place], rows[b][place]) * (down ? -1 : 1) || a - b);
    for (const [at, head] of heads.entries()) {
      if (at === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    draw();
  }

  function draw() {
    body.replaceChildren(...order.slice(0, shown).map((place) => {
      const row = element("tr", null, ...rows[place].map((cell) => element("td", { class: typeof cell === "number" ? "number" : "" }, cellText(cell))));
      if (choose) {
        row.tabIndex = 0;
        row.addEventListener("click", () => choose(rows[place]));
        row.addEventListener("keydown", (event) => event.key === "Enter" && choose(rows[place]));
      }
      return row;
    }));
    more.hidden = order.length <= shown;
    more.textContent = `show ${counted(Math.min(10 * AT_ONCE, order.length - shown), "more row")}`;
  }

  draw();
  const table = element("table", { class: choose ? "data clickable" : "data" }, element("thead", null, element("tr", null, ...heads)), body);
  return element("div", { class: "table-around", tabIndex: 0, role: "region", "aria-label": "table" }, table, more, left);
}

/** @param {Cell} cell */
export function cellText(cell) {
  if (cell === null) return "";
  return typeof cell === "number" ? numberText(cell) : String(cell);
}

/** Numbers before texts, and what is empty or NaN last. @param {Cell} a @param {Cell} b */
function compare(a, b) {
  const [left, right] = [number(a), number(b)];
  if (left !== null && right !== null) return left - right || 0;
  if (left !== null) return -1;
  if (right !== null) return 1;
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}

/** @param {Cell} cell */
function number(cell) {
  if (typeof cell === "number") return cell;
  if (typeof cell === "boolean") return Number(cell);
  return cell === "Infinity" ? Infinity : cell === "-Infinity" ? -Infinity : null;
}
