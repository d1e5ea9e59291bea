/**
 * What a view gets and what it gives.
 *
 * @typedef {object} RunInfo the row of a run in the answer `runs`
 * @property {string} key
 * @property {string} name
 * @property {string} folder
 * @property {string} status
 * @property {boolean} live
 * @property {number | null} created_ms
 * @property {number | null} finished_ms
 * @property {number[]} ranks
 * @property {string[]} tags
 * @property {string} damage which files of its store were emptied or cut short, in one line
 *
 * @typedef {RunInfo & {readonly colour: string, place: number}} ChosenRun
 *   ``colour`` is one of the page's scheme of colours, ``place`` its number among the chosen runs
 *
 * @typedef {object} Params the state of a view in the hash
 * @property {(name: string, otherwise?: string) => string} get
 * @property {(changes: Record<string, string | number | boolean | null | undefined>, replace?: boolean) => void} set
 *   null, undefined, false and "" remove a name; ``replace`` makes no entry in the browser's history
 *
 * @typedef {object} Context
 * @property {import("./data/source.js").Source} source
 * @property {ChosenRun[]} runs
 * @property {Params} params
 * @property {AbortSignal} signal aborted when the view is closed
 * @property {(view: string, params?: Record<string, string | number | null | undefined>) => void} navigate
 * @property {(view: string, params?: Record<string, string | number | null | undefined>) => string} href
 *   the hash for a link to a view with the chosen runs
 * @property {(text: string) => void} announce says a text to screen readers and shows it for a moment
 * @property {(error: unknown) => void} fail shows an error in the page's one place for errors
 *
 * @typedef {object} View
 * @property {(changed: Set<string>) => void} refresh a chosen run has new data; keys of runs
 * @property {() => void} state the hash has changed other than by ``params.set``: read ``context.params`` again
 * @property {() => void} [recolour] the scheme of colours has changed: what is on a canvas is drawn again
 * @property {() => void} close
 *
 * @typedef {object} ViewEntry
 * @property {string} name in the hash
 * @property {string} title
 * @property {string} key the letter after "g" that opens the view
 * @property {(root: HTMLElement, context: Context) => View} open
 */
export {};
