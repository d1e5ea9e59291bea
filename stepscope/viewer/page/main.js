/** Starts the page, with the data inside it if there are any. */
import "./style.css";
import { Shell } from "./shell.js";
import { liveSource, staticSource } from "./source.js";

// The token has become a cookie; an address that is copied from here shall not hold it.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);

const answers = /** @type {any} */ (globalThis).STEPSCOPE_ANSWERS;
void new Shell(document.body, answers ? staticSource(answers) : liveSource()).start();
