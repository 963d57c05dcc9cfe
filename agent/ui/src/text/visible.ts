// A call must look in the page exactly as it will run. So `visible` shows each invisible character as its code point,
// such as ‹U+202E›, as libs/middleware/approvals/visible_text.py does.

// Control, format (bidirectional, zero-width), surrogate, private, unassigned, separators except the space;
// then letters and marks that are invisible although others of their category are not.
const INVISIBLE =
  /(?![ \n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFE00-\uFE0F\uFFA0\u{E0100}-\u{E01EF}]/gu;

/** Replace each invisible character by `‹U+XXXX›`. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, codePoint);
}

const COLOUR = /\x1b\[[0-9;]*m/g;
// C0 without tab and newline, DEL and C1; characters that reorder text; lone surrogates.
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\p{Cs}/gu;

/** Make the output of a program or a model safe to show: no colours, no control or reordering characters. */
export function harmless(text: string): string {
  return text.replace(COLOUR, "").replace(/\r\n?/g, "\n").replace(CONTROL, codePoint);
}

/** The lines of a whole output, safe to show. */
export function linesOf(output: string): string[] {
  const text = harmless(output).replace(/\n$/, "");
  return text ? text.split("\n") : [];
}

function codePoint(character: string): string {
  return `‹U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}›`;
}
