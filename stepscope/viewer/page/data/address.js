/**
 * The hash is the state of the page: `#/charts?runs=K,K&search=loss`. Addresses of answers have the same form.
 *
 * @typedef {{view: string, runs: string[] | null, params: URLSearchParams}} State
 */

/**
 * @param {string} hash with or without "#"
 * @returns {State} ``runs`` is null where the hash names none
 */
export function parseHash(hash) {
  const [, view, query] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? ["", "", "", ""];
  const params = new URLSearchParams(query);
  const runs = params.has("runs") ? (params.get("runs") ?? "").split(",").filter(Boolean) : null;
  params.delete("runs");
  return { view, runs, params };
}

/**
 * @param {State} state
 * @returns {string} with "#"
 */
export function formatHash({ view, runs, params }) {
  const all = new URLSearchParams(runs === null ? {} : { runs: runs.join(",") });
  for (const [name, value] of params) if (name !== "runs") all.append(name, value);
  const query = String(all).replaceAll("%2C", ",").replaceAll("%2F", "/");
  return `#/${view}${query && `?${query}`}`;
}

/**
 * The address of an answer. Parameters that are undefined, null or empty are left out.
 * @param {string} path
 * @param {Record<string, string | number | null | undefined>} [params]
 */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.append(name, String(value));
  }
  return String(query) ? `${path}?${query}` : path;
}

const OF_A_RANGE = new Set(["first", "last", "width", "since", "steps", "detail", "at"]);

/**
 * The key of an answer in a static export: without the parameters that only name a part, in the order of their names.
 * @param {string} address
 */
export function staticKey(address) {
  const [path, query] = address.split(/\?(.*)/s);
  const pairs = [...new URLSearchParams(query)].filter(
    ([name, value]) => !OF_A_RANGE.has(name) && value !== "" && !(name === "rank" && value === "0"),
  );
  pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const sorted = String(new URLSearchParams(pairs));
  return sorted ? `${path}?${sorted}` : path;
}
