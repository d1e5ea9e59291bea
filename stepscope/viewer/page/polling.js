/** Looks each second whether chosen runs have new data; a hidden tab does not look. */
import { address } from "./address.js";
import { AnswerError } from "./source.js";

const EVERY_MS = 1000;
const AFTER_ERROR_MS = 4000;

/**
 * @param {import("./source.js").Source} source
 * @param {object} handlers
 * @param {() => string[]} handlers.keys the chosen runs
 * @param {(changed: Set<string>, states: Record<string, any>) => void} handlers.changed
 * @param {(error: unknown) => void} handlers.failed
 * @param {() => void} handlers.answered
 */
export function poll(source, { keys, changed, failed, answered }) {
  /** @type {Map<string, string>} */
  const seen = new Map();
  let timer = 0;

  async function look() {
    clearTimeout(timer);
    if (document.hidden) return;
    let pause = EVERY_MS;
    const wanted = keys();
    try {
      const states = wanted.length ? await source.json(address("positions", { runs: wanted.join(",") })) : {};
      const news = new Set();
      for (const [key, state] of Object.entries(states)) {
        const position = JSON.stringify(state);
        if (seen.has(key) && seen.get(key) !== position && !state.error) news.add(key);
        seen.set(key, position);
      }
      answered();
      changed(news, states);
    } catch (error) {
      failed(error);
      pause = error instanceof AnswerError && error.status === 0 ? AFTER_ERROR_MS : EVERY_MS;
    }
    clearTimeout(timer);
    timer = window.setTimeout(look, pause);
  }

  document.addEventListener("visibilitychange", look);
  void look();
}
