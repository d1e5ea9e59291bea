/**
 * The epochs of the chosen runs that have datapoints.
 *
 * @typedef {{id: string, run: import("../context.js").ChosenRun, key: string, title: string, step: number | null, rank: number, count: number, debuggers: string[]}} Epoch
 */
import { element } from "../dom.js";
import { ofEachRun } from "../data/each_run.js";
import { counted, stepText } from "../text/format.js";

/** The epochs, and why other pages are in none. @param {import("../context.js").Context} context @returns {Promise<{epochs: Epoch[], refused: string[]}>} */
export async function epochsOf(context) {
  const { source, runs, signal } = context;
  const answers = await ofEachRun(context, runs, ({ key }) => source.json(`datapoints?run=${key}`, { signal }));
  return {
    epochs: answers.flatMap(({ run, answer }) => answer.epochs.map((/** @type {any} */ epoch) => ({ ...epoch, run, id: `${run.key}:${epoch.key}` }))),
    refused: answers.flatMap(({ answer }) => answer.refused),
  };
}

/** @param {Epoch} epoch */
export function epochText({ title, step, rank, count }) {
  const parts = [title, step !== null && `step ${stepText(step)}`, rank > 0 && `rank ${rank}`].filter(Boolean);
  return `${parts.join(", ")} (${counted(count, "datapoint")})`;
}

/** @param {HTMLSelectElement} select @param {Epoch[]} epochs @param {Epoch | null} chosen @param {...HTMLElement} before */
function fill(select, epochs, chosen, ...before) {
  const groups = [...new Set(epochs.map(({ run }) => run))].map((run) =>
    element("optgroup", { label: run.name }, ...epochs.filter((epoch) => epoch.run === run).map((epoch) => element("option", { value: epoch.id }, epochText(epoch)))));
  select.replaceChildren(...before, ...groups);
  select.value = chosen?.id ?? "";
}

/** @param {HTMLSelectElement} select @param {Epoch[]} epochs @param {Epoch} chosen */
export function epochOptions(select, epochs, chosen) {
  fill(select, epochs, chosen);
}

/** @param {HTMLSelectElement} select @param {Epoch[]} epochs @param {Epoch} epoch @param {Epoch | null} chosen */
export function besideOptions(select, epochs, epoch, chosen) {
  const others = epochs.filter(({ id }) => id !== epoch.id);
  fill(select, others, chosen, element("option", { value: "" }, others.length ? "no other" : "there is no other epoch"));
}
