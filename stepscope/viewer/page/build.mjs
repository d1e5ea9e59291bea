// Bundles the page into one classic script and one style sheet: modules and fetch do not work from file://.
import { build } from "esbuild";

await build({
  entryPoints: { page: "main.js" },
  outdir: "../built",
  bundle: true,
  format: "iife",
  target: ["chrome100", "firefox100", "safari15.4"],
  minify: true,
  charset: "utf8",
  legalComments: "eof",
  logLevel: "warning",
});
