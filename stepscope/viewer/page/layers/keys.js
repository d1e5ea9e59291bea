/** The keys of a heat map: its cursor, its zoom, and what opens a layer. */

/** @param {import("./heat_map.js").HeatMap} map @param {KeyboardEvent} event */
export function pressedKey(map, event) {
  const { cells, range } = map;
  if (!cells || event.ctrlKey || event.metaKey || event.altKey) return;
  const wide = range[1] - range[0];
  const cursor = map.cursor ?? { row: 0, step: cells.steps[0] ?? 0 };
  const column = Math.max(0, map.columnOf(cursor.step));
  const to = (/** @type {number} */ place) => cells.steps[Math.min(Math.max(place, 0), cells.steps.length - 1)] ?? 0;
  const many = event.shiftKey ? 10 : 1;
  const row = (/** @type {number} */ place) => ({ row: Math.min(Math.max(place, 0), map.rows.length - 1), step: cursor.step });
  /** @type {Record<string, () => void>} */
  const actions = {
    ArrowLeft: () => map.handlers.cursor({ ...cursor, step: to(column - many) }),
    ArrowRight: () => map.handlers.cursor({ ...cursor, step: to(column + many) }),
    ArrowUp: () => map.handlers.cursor(row(cursor.row - many)),
    ArrowDown: () => map.handlers.cursor(row(cursor.row + many)),
    PageUp: () => map.handlers.cursor(row(cursor.row - 20)),
    PageDown: () => map.handlers.cursor(row(cursor.row + 20)),
    Home: () => map.handlers.cursor({ ...cursor, step: to(0) }),
    End: () => map.handlers.cursor({ ...cursor, step: to(cells.steps.length - 1) }),
    Enter: () => map.handlers.open(cursor),
    "+": () => map.handlers.zoom([Math.max(0, Math.round(cursor.step - wide / 4)), Math.round(cursor.step + wide / 4)]),
    "-": () => map.handlers.zoom(wide * 2 > cells.lastStep ? null : [Math.max(0, Math.round(cursor.step - wide)), Math.round(cursor.step + wide)]),
    0: () => map.handlers.zoom(null),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}
