/** Every series of the chosen runs: by group, over each other, zoomed together. */
import { Board } from "../charts/board.js";

/** @param {HTMLElement} root @param {import("../context.js").Context} context @returns {import("../context.js").View} */
export function open(root, context) {
  const board = new Board(root, context);
  return {
    refresh: (changed) => board.refresh(changed),
    state: () => board.read(),
    recolour: () => board.recolour(),
    close: () => board.close(),
  };
}
