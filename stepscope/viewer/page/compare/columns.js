/**
 * The columns of the table of runs, and what a filter says of them.
 *
 * @typedef {string | number | boolean | null | undefined} Cell
 * @typedef {object} Row the row of a run in the answer `compare`, with its causes once they are known
 * @property {string} key
 * @property {string} name
 * @property {string} status
 * @property {string} verdict
 * @property {string} state
 * @property {number | null} seconds
 * @property {number | null} last_step
 * @property {Record<string, Cell>} config
 * @property {Record<string, Record<string, any>>} metrics
 * @property {string[]} names
 * @property {{code: string, title: string, confidence: number}[]} [causes]
 * @property {boolean} [observed] whether a session has looked for causes
 *
 * @typedef {object} Column
 * @property {string} id
 * @property {string} title
 * @property {"about" | "config" | "metric"} kind
 * @property {(row: Row) => Cell} value
 */
import { jsonNumber } from "../data/columns.js";

export const STATISTICS = { last: "last value", lowest: "lowest", highest: "highest", at: "at step" };

/** @type {Column[]} */
const ABOUT = [
  { id: "run", title: "run", kind: "about", value: (row) => row.name },
  { id: "status", title: "status", kind: "about", value: (row) => row.status },
  { id: "steps", title: "last step", kind: "about", value: (row) => row.last_step },
  { id: "seconds", title: "seconds", kind: "about", value: (row) => row.seconds },
  { id: "verdict", title: "verdict", kind: "about", value: (row) => row.verdict },
  { id: "causes", title: "causes", kind: "about", value: (row) => row.causes?.map(({ code }) => code).join(", ") },
];

/** A cell that sorts: texts that are numbers in JSON, such as "NaN", become numbers. @param {any} value @returns {Cell} */
function plain(value) {
  return value === "NaN" || value === "Infinity" || value === "-Infinity" ? jsonNumber(value) : value;
}

/**
 * All columns of these runs, those that a person asks for first at the beginning.
 * @param {Row[]} rows
 * @param {string} statistic
 * @returns {Column[]}
 */
export function columnsOf(rows, statistic) {
  const config = new Set(rows.flatMap((row) => Object.keys(row.config)));
  const metrics = new Set(rows.flatMap((row) => Object.keys(row.metrics)));
  return [
    ...ABOUT,
    ...[...config].map((name) => ({ id: `config ${name}`, title: name, kind: /** @type {const} */ ("config"), value: (/** @type {Row} */ row) => plain(row.config[name]) })),
    ...[...metrics].map((name) => ({ id: `metric ${name}`, title: name, kind: /** @type {const} */ ("metric"), value: (/** @type {Row} */ row) => plain(row.metrics[name]?.[statistic]) })),
  ];
}

/** Whether a column says the same of all runs. @param {Column} column @param {Row[]} rows */
export function isEqual(column, rows) {
  return rows.length > 1 && rows.every((row) => Object.is(column.value(row), column.value(rows[0])));
}

/** Of many numbers some metrics are shown as well: without what came of them, settings tell little. */
const LEAST_METRICS = 2;

/**
 * The columns of numbers that find room as axes: settings first, then metrics.
 * @param {Column[]} columns @param {Row[]} rows @param {number} room for so many
 */
export function axesOf(columns, rows, room) {
  const numbers = columns.filter((column) => column.kind !== "about" && rows.filter((row) => Number.isFinite(column.value(row))).length > 1);
  const [settings, metrics] = ["config", "metric"].map((kind) => numbers.filter((column) => column.kind === kind));
  const ofMetrics = Math.min(metrics.length, Math.max(LEAST_METRICS, room - settings.length));
  return [...settings.slice(0, room - ofMetrics), ...metrics.slice(0, ofMetrics)];
}

/** Numbers by size, NaN and what is missing at the end whatever the direction, texts by their letters. @param {Column} column @param {boolean} descending */
export function byColumn(column, descending) {
  const missing = (/** @type {Cell} */ value) => value === null || value === undefined || value === "" || Number.isNaN(value);
  return (/** @type {Row} */ one, /** @type {Row} */ other) => {
    const [a, b] = [column.value(one), column.value(other)];
    if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return descending ? -order : order;
  };
}

const CONDITION = /^(.+?)\s*(<=|>=|!=|=|<|>)\s*(.*)$/s;

/**
 * A filter such as `lr > 0.01, status = finished, sweep`: conditions on columns, and words that a run's cells hold.
 * @param {string} text
 * @param {Column[]} columns
 * @returns {{passes: (row: Row) => boolean, unknown: string[]}} ``unknown`` are names that no column has
 */
export function filterOf(text, columns) {
  /** @type {string[]} */
  const unknown = [];
  const parts = text.split(/,|\band\b/).map((part) => part.trim()).filter(Boolean); // prettier-ignore
  const tests = parts.map((part) => {
    const found = CONDITION.exec(part);
    if (!found) {
      const word = part.toLowerCase();
      return (/** @type {Row} */ row) => columns.some((column) => column.kind === "about" && String(column.value(row) ?? "").toLowerCase().includes(word));
    }
    const [, name, sign, wanted] = found;
    const column = columns.find(({ title }) => title === name) ?? columns.find(({ title }) => title.split(/[./]/).at(-1) === name);
    if (!column) {
      unknown.push(name);
      return () => false;
    }
    return (/** @type {Row} */ row) => compare(column.value(row), sign, wanted);
  });
  return { passes: (row) => tests.every((test) => test(row)), unknown };
}

/** @param {Cell} value @param {string} sign @param {string} wanted @returns {boolean} */
function compare(value, sign, wanted) {
  if (value === null || value === undefined) return sign === "!=";
  const number = Number(wanted);
  const numeric = typeof value === "number" && wanted !== "" && (!Number.isNaN(number) || wanted.toLowerCase() === "nan");
  if (sign === "=") return numeric ? Object.is(value, number) || value === number : String(value) === wanted;
  if (sign === "!=") return !compare(value, "=", wanted);
  const [a, b] = numeric ? [value, number] : [String(value), wanted];
  return { "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b }[sign] ?? false;
}
