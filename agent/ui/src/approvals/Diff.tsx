import { diffLines, diffWordsWithSpace, type Change } from "diff";
import { useMemo } from "react";
import { visible } from "../text/visible";

interface Part {
  text: string;
  changed: boolean;
}

interface Row {
  sign: "+" | "-" | " ";
  parts: Part[];
}

const NAMES = { "+": "added", "-": "removed", " ": "same" } as const;

/** Longer changes, in characters, are compared by lines only. */
const MOST_WORDS = 20_000;

/** The whole change of an edit, line by line. In a changed line, the changed words are marked. */
export function Diff({ before, after }: { before: string; after: string }) {
  const rows = useMemo(() => rowsOf(visible(before), visible(after)), [before, after]);
  return (
    <div className="diff" tabIndex={0} role="group" aria-label="The change, line by line">
      {rows.map(({ sign, parts }, index) => (
        <div key={index} className={`row ${NAMES[sign]}`}>
          <span className="sign">{sign}</span>
          {sign !== " " && <span className="hidden">{NAMES[sign]}: </span>}
          <span className="text">{parts.map(({ text, changed }, at) => (changed ? <mark key={at}>{text}</mark> : text))}</span>
        </div>
      ))}
    </div>
  );
}

function rowsOf(before: string, after: string): Row[] {
  const changes = diffLines(before, after);
  const rows = changes.flatMap((change, index) => {
    const sign = change.added ? "+" : change.removed ? "-" : " ";
    const other = change.added ? changes[index - 1] : changes[index + 1];
    const replaced = change.added ? other?.removed : change.removed && other?.added;
    if (!replaced || change.value.length + other!.value.length >= MOST_WORDS) return split([change], sign, false);
    const [removed, added] = change.added ? [other!, change] : [change, other!];
    const words = diffWordsWithSpace(removed.value, added.value);
    return split(words.filter((word) => (change.added ? !word.removed : !word.added)), sign, true);
  });
  // Rows have no line ends, so a changed end of the last line needs its own row.
  if (before.endsWith("\n") !== after.endsWith("\n")) {
    const part = { text: "↵ the line end after the last line", changed: true };
    rows.push({ sign: after.endsWith("\n") ? "+" : "-", parts: [part] });
  }
  return rows;
}

/** Split pieces of text at line ends into rows. With `words`, the added and removed pieces are marked. */
function split(pieces: Change[], sign: Row["sign"], words: boolean): Row[] {
  const rows: Row[] = [{ sign, parts: [] }];
  for (const piece of pieces) {
    const changed = words && (piece.added || piece.removed);
    piece.value.split("\n").forEach((text, index) => {
      if (index > 0) rows.push({ sign, parts: [] });
      if (text) rows.at(-1)!.parts.push({ text, changed });
    });
  }
  if (rows.length > 1 && rows.at(-1)!.parts.length === 0) rows.pop();
  return rows.map((row) => (sign === " " ? row : { sign, parts: row.parts.flatMap(withVisibleBlanks) }));
}

/** Mark the tabs and trailing blanks of a changed line, and make them visible. */
function withVisibleBlanks(part: Part, index: number, parts: readonly Part[]): Part[] {
  const blanks = index === parts.length - 1 ? /(\t| +$)/ : /(\t)/;
  return part.text.split(blanks).flatMap((text, at): Part[] => {
    if (at % 2 === 1) return [{ text: text === "\t" ? "→\t" : "·".repeat(text.length), changed: true }];
    return text ? [{ ...part, text }] : [];
  });
}
