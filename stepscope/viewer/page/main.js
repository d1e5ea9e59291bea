/** Starts the page, with the data inside it if there are any. */
import "./styles/style.css";
import { showExport } from "./shell/export_note.js";
import { Shell } from "./shell/shell.js";
import { liveSource, staticSource } from "./data/source.js";

// The token has become a cookie; an address that is copied from here shall not hold it.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);

const inside = document.getElementById("stepscope-answers");
const source = inside ? staticSource(JSON.parse(inside.textContent ?? "{}")) : liveSource();

async function start() {
  const note = inside && (await source.json("export"));
  await new Shell(document.body, source, note?.first).start();
  if (note) showExport(document.body, note);
}

void start();
