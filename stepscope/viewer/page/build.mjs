// Bundles the page into one classic script and one style sheet: modules and fetch do not work from file://.
import { readFile, readdir, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const OUT = "../built";
const options = {
  entryPoints: { page: "main.js" },
  outdir: OUT,
  bundle: true,
  format: "iife",
  target: ["chrome100", "firefox100", "safari15.4"],
  minify: true,
  charset: "utf8",
  legalComments: "eof",
  logLevel: "warning",
};

/** The licences of the packages that a bundle has parts of: they ask to go with it. */
async function licencesOf({ inputs }) {
  const packages = new Set(Object.keys(inputs).flatMap((path) => [...path.matchAll(/node_modules\/((?:@[^/]+\/)?[^/@]+)\//g)].slice(-1).map(([, name]) => name)));
  const texts = [...packages].sort().map(async (name) => {
    const folder = `node_modules/${name}`;
    const { version } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
    const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`${folder} has no licence text; expected a file LICENSE`);
    return `${name} ${version}\n\n${(await readFile(`${folder}/${file}`, "utf8")).trim()}\n`;
  });
  return (await Promise.all(texts)).join("\n\n");
}

const define = { LICENCES: '""' };
const { metafile } = await build({ ...options, define, metafile: true, write: false });
const licences = await licencesOf(metafile);
await build({ ...options, define: { LICENCES: JSON.stringify(licences) } });
await writeFile(`${OUT}/licences.txt`, licences);
