/** Names of runs that tell them apart: a sweep may call all of its runs the same. */

/** The last folders of a path. @param {string} folder @param {number} count */
const end = (folder, count) => folder.split("/").filter(Boolean).slice(-count).join("/");

/**
 * The runs, of which those that have one name are called by as many folders as tell them apart.
 * @template {{name: string, folder: string}} R
 * @param {R[]} runs
 * @returns {R[]}
 */
export function toldApart(runs) {
  /** @type {Map<string, R[]>} */
  const named = new Map();
  for (const run of runs) named.set(run.name, [...(named.get(run.name) ?? []), run]);
  /** @type {Map<R, string>} */
  const names = new Map();
  for (const [name, same] of named) {
    const most = Math.max(...same.map(({ folder }) => folder.split("/").length));
    let count = 1;
    while (count < most && new Set(same.map(({ folder }) => end(folder, count))).size < same.length) count++;
    for (const run of same.length > 1 ? same : []) {
      const folders = end(run.folder, count);
      names.set(run, folders === name || folders.endsWith(`/${name}`) ? folders : `${name} (${folders})`);
    }
  }
  return runs.map((run) => (names.has(run) ? { ...run, name: names.get(run) ?? run.name } : run));
}
