/**
 * The views in the order of the navigation; the first opens when the hash names none.
 * @type {import("../context.js").ViewEntry[]}
 */
import * as charts from "./charts.js";

export const VIEWS = [
  { name: "charts", title: "Charts", key: "c", open: charts.open },
];
