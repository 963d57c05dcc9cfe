// What is shown for approval must look like what will run (H6). As libs/middleware/visible.py does it, each
// character that cannot be seen is written out as its code point, such as ‹U+202E›.

// Control, format (bidirectional, zero-width), surrogate, private, unassigned, separators but the plain blank;
// then letters and marks that draw nothing although their category says otherwise.
const UNSEEN =
  /(?![ \n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFE00-\uFE0F\uFFA0\u{E0100}-\u{E01EF}]/gu;

/** `text` with each character that cannot be seen replaced by `‹U+XXXX›`. */
export function visible(text: string): string {
  return text.replace(UNSEEN, written);
}

const COLOUR = /\x1b\[[0-9;]*m/g;
// C0 without tab and newline, DEL and C1; what reorders text; halves of characters.
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\p{Cs}/gu;

/** What a program or a model has printed, with nothing in it that reorders text; colours are dropped. */
export function harmless(text: string): string {
  return text.replace(COLOUR, "").replace(/\r\n?/g, "\n").replace(CONTROL, written);
}

function written(character: string): string {
  return `‹U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}›`;
}
