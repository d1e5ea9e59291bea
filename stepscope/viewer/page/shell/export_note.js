/** Says below an exported page when it was made, and what it left out. */
import { element } from "../dom.js";
import { counted, timeText } from "../text/format.js";

/**
 * @param {HTMLElement} body
 * @param {{made_ms: number, left_out: Record<string, number>}} note the answer `export`
 */
export function showExport(body, { made_ms: made, left_out: leftOut }) {
  const parts = Object.entries(leftOut).map(([part, count]) => counted(Number(count), part, part));
  const missing = parts.length ? ` Left out for their size or the time: ${parts.join(", ")}. ` : " Nothing was left out. ";
  body.append(
    element("footer", { class: "export-note" }, `Exported ${timeText(made)}. Long series are shown by ranges with their extremes.${missing}`, "The whole run: ", element("code", null, "stepscope view RUN")),
  );
}
