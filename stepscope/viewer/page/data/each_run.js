/** Asking about several runs, of which one may be deleted or damaged. */

/**
 * The answers about each run that can be read, in the order of the runs; why another cannot be read is said.
 * @template {import("../context.js").ChosenRun} R
 * @template T
 * @param {import("../context.js").Context} context
 * @param {R[]} runs
 * @param {(run: R) => Promise<T>} ask
 * @returns {Promise<{run: R, answer: T}[]>}
 */
export async function ofEachRun({ signal, fail }, runs, ask) {
  const found = await Promise.all(runs.map(async (run) => {
    try {
      return [{ run, answer: await ask(run) }];
    } catch (error) {
      if (signal.aborted) throw error;
      fail(error);
      return [];
    }
  })); // prettier-ignore
  return found.flat();
}
