/**
 * The views in the order of the navigation; the first opens when the hash names none.
 * @type {import("../context.js").ViewEntry[]}
 */
import * as charts from "./charts.js";
import * as compare from "./compare.js";
import * as datapoints from "./datapoints.js";
import * as histograms from "./histograms.js";
import * as images from "./images.js";
import * as run from "./run.js";
import * as layers from "./layers.js";
import * as texts from "./texts.js";
import * as verdict from "./verdict.js";

export const VIEWS = [
  { name: "verdict", title: "Verdict", key: "v", open: verdict.open },
  { name: "charts", title: "Charts", key: "c", open: charts.open },
  { name: "layers", title: "Layers", key: "l", open: layers.open },
  { name: "histograms", title: "Histograms", key: "h", open: histograms.open },
  { name: "images", title: "Images", key: "i", open: images.open },
  { name: "texts", title: "Texts", key: "x", open: texts.open },
  { name: "datapoints", title: "Datapoints", key: "d", open: datapoints.open },
  { name: "compare", title: "Compare", key: "m", open: compare.open },
  { name: "run", title: "Run", key: "n", open: run.open },
];
