/** Starts the page, with the data inside it if there are any. */
import "./style.css";
import { Shell } from "./shell.js";
import { liveSource, staticSource } from "./source.js";

const answers = /** @type {any} */ (globalThis).STEPSCOPE_ANSWERS;
void new Shell(document.body, answers ? staticSource(answers) : liveSource()).start();
