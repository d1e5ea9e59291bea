/** Starts the page, with the data inside it if there are any. */
import "./style.css";
import { showExport } from "./export_note.js";
import { Shell } from "./shell.js";
import { liveSource, staticSource } from "./source.js";

// The token has become a cookie; an address that is copied from here shall not hold it.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);

const inside = document.getElementById("stepscope-answers");
const source = inside ? staticSource(JSON.parse(inside.textContent ?? "{}")) : liveSource();
void new Shell(document.body, source).start();
if (inside) void showExport(document.body, source);
