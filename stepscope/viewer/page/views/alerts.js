/** The alerts of the chosen runs, by level and name; each leads to the charts at its step. */
import { element } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { counted, stepText, timeText } from "../text/format.js";

const LEVELS = ["error", "warning", "info"];
const MOST = 2000;
const AROUND = 50;

/** @param {import("../context.js").Context} context @returns {Promise<{element: HTMLElement}>} */
export async function alertsPanel(context) {
  const { source, runs, params, signal } = context;
  const answers = await ofEachRun(context, runs, ({ key }) => source.json(`alerts?run=${key}`, { signal }));
  const alerts = answers.flatMap(({ run, answer }) => answer.alerts.map((/** @type {any} */ alert) => ({ run, ...alert })));
  alerts.sort((a, b) => a.time_ms - b.time_ms);
  const list = element("div", null);
  const levels = new Set(params.get("levels") ? params.get("levels").split(",") : LEVELS);
  const search = element("input", { type: "search", placeholder: "search alerts", "aria-label": "search alerts", value: params.get("search"), input: () => (params.set({ search: search.value }, true), draw()) });
  const boxes = LEVELS.map((level) => {
    const count = alerts.filter((alert) => alert.level === level).length;
    const box = element("input", { type: "checkbox", checked: levels.has(level), change: () => change(level, box.checked) });
    return element("label", { class: `level ${level}` }, box, ` ${level} (${count})`);
  });

  function change(/** @type {string} */ level, /** @type {boolean} */ on) {
    if (on) levels.add(level);
    else levels.delete(level);
    params.set({ levels: levels.size === LEVELS.length ? null : [...levels].join(",") || "none" }, true);
    draw();
  }

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = alerts.filter((alert) => levels.has(alert.level) && words.every((word) => `${alert.name} ${alert.message}`.toLowerCase().includes(word)));
    list.replaceChildren(
      element("p", { class: "note", role: "status" }, alerts.length ? `${counted(found.length, "alert")} of ${alerts.length}` : "No alert was raised. Only what was measured can raise one."),
      element("ol", { class: "alerts" }, ...found.slice(0, MOST).map((alert) => row(context, alert))),
      ...(found.length > MOST ? [element("p", { class: "note" }, `the first ${MOST} are shown: search for the others`)] : []),
    );
  }

  draw();
  return { element: element("div", null, element("div", { class: "bar" }, search, ...boxes), list) };
}

/** @param {import("../context.js").Context} context @param {any} alert */
function row({ href, runs }, alert) {
  const link = href("charts", { zoom: `${Math.max(0, alert.step - AROUND)},${alert.step + AROUND}`, x: "step" });
  return element("li", { class: alert.level },
    element("span", { class: `level ${alert.level}` }, alert.level), " ", element("strong", null, alert.name), " ",
    element("a", { href: link, title: "the charts around this step" }, `step ${stepText(alert.step)}`),
    element("span", { class: "note" }, ` ${runs.length > 1 ? `${alert.run.name}, ` : ""}${alert.rank ? `rank ${alert.rank}, ` : ""}${timeText(alert.time_ms)}`),
    element("p", null, alert.message));
}
