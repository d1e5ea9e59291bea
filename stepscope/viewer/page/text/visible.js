/** Texts out of a run that cannot deceive: what would turn, hide or join them on the screen is seen instead. */

// Controls but tab and newlines, what turns the direction of writing, what has no width (but the joiners, which some
// scripts need), and what a string cannot be encoded with.
const UNSEEN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
// Blanks that a page would swallow or that look like one: at the ends, in a row, and all but the plain one.
const BLANKS = /^ +| +$|(?<= ) +|[^\S ]/gu;

/** @param {string} letter */
const codePoint = (letter) => `⟨U+${/** @type {number} */ (letter.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}⟩`;

/** A text with the code points of characters that cannot be seen. @param {string} text */
export const visible = (text) => text.replace(UNSEEN, codePoint);

/** A name: as `visible`, and with blanks that can be told from none. @param {string} name */
export const nameText = (name) => visible(name).replace(BLANKS, (blanks) => (blanks[0] === " " ? "␣".repeat(blanks.length) : codePoint(blanks)));
