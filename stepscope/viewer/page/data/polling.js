/** Looks each second whether chosen runs have new data; a hidden tab does not look. After an error all count as new. */
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
 */
export function poll(source, { keys, changed, failed }) {
  /** @type {Map<string, string>} */
  const seen = new Map();
  let timer = 0;
  let missed = false;

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
        if (seen.has(key) && (missed || seen.get(key) !== position) && !state.error) news.add(key);
        seen.set(key, position);
      }
      missed = false;
      changed(news, states);
    } catch (error) {
      failed(error);
      missed = true;
      pause = error instanceof AnswerError && error.status === 0 ? AFTER_ERROR_MS : EVERY_MS;
    }
    clearTimeout(timer);
    timer = window.setTimeout(look, pause);
  }

  document.addEventListener("visibilitychange", look);
  void look();
}
