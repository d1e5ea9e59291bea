/** What each chosen run is: configuration, environment, attempts, ranks, delivery to each sink, sizes, damage. */
import { address } from "../data/address.js";
import { table } from "../compare/parting.js";
import { copy, element, shortened } from "../dom.js";
import { whenRead } from "../parts/released.js";
import { counted, durationText, timeText } from "../text/format.js";

const DELIVERY_AGAIN_MS = 3000;
const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** @param {number} bytes */
function bytesText(bytes) {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return `${Number((bytes / 1000 ** power).toPrecision(3))} ${UNITS[power]}`;
}

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  const cards = context.runs.map((run) => {
    const body = element("div", null, element("p", { class: "note" }, "Asking the run…"));
    const card = element("article", { class: "run-card", "aria-label": `run ${shortened(run.name, 80)}` },
      element("h2", { title: run.folder }, element("span", { class: `swatch run-${run.place % 8}` }), " ", shortened(run.name, 80)), body);
    return { run, body, card };
  });
  root.append(element("div", { class: "run-cards" }, ...cards.map(({ card }) => card)));

  /** @type {Map<string, number>} by run, the next look at what is being delivered: the run's position stays meanwhile */
  const timers = new Map();
  /** @type {Map<string, string>} by run, the answer that is shown: what stays is not drawn again, and keeps its focus */
  const shown = new Map();
  context.signal.addEventListener("abort", () => timers.forEach((timer) => clearTimeout(timer)));

  /** @param {(typeof cards)[number]} one */
  async function load(one) {
    const { run, body } = one;
    clearTimeout(timers.get(run.key));
    try {
      const found = await context.source.json(address("run", { run: run.key }), { signal: context.signal });
      if (context.signal.aborted) return;
      const text = JSON.stringify(found);
      if (shown.get(run.key) !== text) {
        whenRead(body, () => {
          const opened = [...body.querySelectorAll("details")].map((details) => details.open);
          body.replaceChildren(...sections(found, context));
          [...body.querySelectorAll("details")].forEach((details, place) => (details.open = opened[place] ?? false));
        });
        shown.set(run.key, text);
      }
      if (context.source.live && found.delivery.some((/** @type {any} */ sink) => sink.at_work)) {
        timers.set(run.key, window.setTimeout(() => void load(one), DELIVERY_AGAIN_MS));
      }
    } catch (error) {
      shown.delete(run.key);
      if (!context.signal.aborted) body.replaceChildren(element("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
    }
  }
  cards.forEach(load);
  return { refresh: (changed) => cards.filter(({ run }) => changed.has(run.key)).forEach(load), state: () => undefined, close: () => undefined };
}

/** @param {any} found @param {import("../context.js").Context} context @returns {HTMLElement[]} */
function sections(found, context) {
  const ended = found.live ? (context.source.live ? "still running" : "running when this page was made") : `ended ${timeText(found.ended_ms)}`;
  const took = found.ended_ms ? `, took ${durationText((found.ended_ms - found.created_ms) / 1000)}` : "";
  const about = [["folder", found.folder], ["id", found.id], ["status", `${found.live ? "running" : found.status}; began ${timeText(found.created_ms)}, ${ended}${took}`],
    ["tags", found.tags.join(", ") || "none"], ["size", `${bytesText(found.sizes.store + found.sizes.blobs)}: store ${bytesText(found.sizes.store)}, files beside it ${bytesText(found.sizes.blobs)}, of these pages ${bytesText(found.sizes.pages)}`]]; // prettier-ignore
  const lost = Object.entries(found.lost).map(([reason, count]) => `${counted(Number(count), "artifact")} lost before they were stored: ${reason}`);
  const damage = [...found.damage, ...lost, ...(found.damaged ? [`${counted(found.damaged, "damaged part")} left out while reading`] : [])];
  return [
    section("Run", pairs(about)),
    section("Damage", damage.length ? element("ul", { class: "bad" }, ...damage.map((line) => element("li", null, line))) : element("p", { class: "note" }, "None found.")),
    section("Configuration", pairs(Object.entries(found.config))),
    section("Environment", pairs(Object.entries(found.environment))),
    section("Delivery", delivery(found.delivery, context)),
    section("Attempts", table(["rank", "attempt", "began", "last artifact", "artifacts", "state"], found.ranks.flatMap((/** @type {any} */ rank) =>
      rank.attempts.map((/** @type {any} */ one) => [String(rank.rank), String(one.attempt), timeText(one.began_ms), timeText(one.last_ms), one.stored.toLocaleString("en"), one.state])))),
    section("Ranks", table(["rank", "artifacts", "segments", "size", "writer"], found.ranks.map((/** @type {any} */ rank) =>
      [String(rank.rank), rank.stored.toLocaleString("en"), String(rank.segments), bytesText(rank.bytes), rank.live ? "at work" : "none"]))),
    section("What is recorded", table(["kind", "names", "artifacts"], Object.entries(found.kinds).map(([kind, { names, artifacts }]) => [kind, names.toLocaleString("en"), artifacts.toLocaleString("en")]))),
  ];
}

/** @param {any[]} sinks @param {import("../context.js").Context} context */
function delivery(sinks, context) {
  if (!sinks.length) return element("p", { class: "note" }, "Nothing was delivered to a tracker: the run has no sinks.");
  return table(["sink", "target", "delivered", "pending", "failed", "state"], sinks.map((sink) => {
    const failed = Object.entries(sink.failed).map(([reason, count]) => `${count} ${reason}`).join(", ") || "0";
    const state = element("div", null, sink.error ? element("span", { class: "bad" }, sink.error) : sink.state, !sink.at_work && sink.pending > 0 && " (nobody delivers)");
    if (sink.command) state.append(" ", element("code", null, sink.command), " ", element("button", { click: () => copy(sink.command, context.announce) }, "copy"));
    return [sink.rank ? `${sink.sink} (rank ${sink.rank})` : sink.sink, shortened(sink.target, 80), sink.delivered.toLocaleString("en"), sink.pending.toLocaleString("en"), failed, state];
  }));
}

/** @param {string} title @param {HTMLElement} content */
function section(title, content) {
  return element("section", null, element("h3", null, title), content);
}

/** A list, such as that of the packages, is folded. @param {string} text */
function valueOf(text) {
  if (!text.includes("\n")) return shortened(text, 400);
  return element("details", null, element("summary", null, `${text.split("\n").length.toLocaleString("en")} entries`), element("pre", null, text));
}

/** @param {[string, any][] | any[][]} entries */
function pairs(entries) {
  if (!entries.length) return element("p", { class: "note" }, "None was recorded.");
  return element("dl", { class: "pairs" }, ...entries.flatMap(([name, value]) => [element("dt", { title: name }, shortened(name, 60)), element("dd", null, valueOf(String(value ?? "none")))]));
}
