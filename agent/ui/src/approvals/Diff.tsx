import { diffLines, diffWordsWithSpace } from "diff";
import { useMemo } from "react";
import { visible } from "../text/visible";

interface Row {
  sign: "+" | "-" | " ";
  parts: Part[];
}

interface Part {
  text: string;
  changed: boolean;
  /** What is drawn in its place, where `text` is nothing one would see. */
  unseen?: string;
}

/** Longer texts are compared by lines only. */
const MOST_WORDS = 20_000;

/** What an edit takes out and puts in, whole, line by line; within a changed line, what has changed. */
export function Diff({ before, after }: { before: string; after: string }) {
  const rows = useMemo(() => rowsOf(visible(before), visible(after)), [before, after]);
  return (
    <div className="diff" tabIndex={0} role="group" aria-label="The change, line by line">
      {rows.map((row, index) => (
        <div key={index} className={`row ${row.sign === "+" ? "added" : row.sign === "-" ? "removed" : "same"}`}>
          <span className="sign">{row.sign}</span>
          <span className="hidden">{row.sign === "+" ? "added: " : row.sign === "-" ? "removed: " : ""}</span>
          <span className="text">
            {row.parts.map((part, at) =>
              part.unseen ? (
                <mark key={at} className="unseen">
                  {part.unseen}
                </mark>
              ) : part.changed ? (
                <mark key={at}>{part.text}</mark>
              ) : (
                part.text
              ),
            )}
          </span>
        </div>
      ))}
    </div>
  );
}

function rowsOf(before: string, after: string): Row[] {
  const rows: Row[] = [];
  const changes = diffLines(before, after);
  for (let index = 0; index < changes.length; index += 1) {
    const change = changes[index]!;
    const next = changes[index + 1];
    if (change.removed && next?.added && change.value.length + next.value.length < MOST_WORDS) {
      rows.push(...within(change.value, next.value));
      index += 1;
    } else {
      const sign = change.added ? "+" : change.removed ? "-" : " ";
      rows.push(...split([{ text: change.value, changed: false }], sign));
    }
  }
  // Rows are lines without their ends: that the last one gets or loses its own would not be seen.
  if (before.endsWith("\n") !== after.endsWith("\n")) {
    const part = { text: "", changed: true, unseen: "↵ the line end after the last line" };
    rows.push({ sign: after.endsWith("\n") ? "+" : "-", parts: [part] });
  }
  return rows.map((row) => (row.sign === " " ? row : { ...row, parts: row.parts.flatMap(seen) }));
}

/** Of a line that changes: tabs, and blanks at its end, drawn so that they are seen. */
function seen(part: Part, index: number, parts: readonly Part[]): Part[] {
  if (part.unseen) return [part];
  const blanks = index === parts.length - 1 ? /(\t| +$)/ : /(\t)/;
  return part.text.split(blanks).flatMap((text, at): Part[] => {
    if (at % 2 === 1) return [{ text, changed: true, unseen: text === "\t" ? "→\t" : "·".repeat(text.length) }];
    return text ? [{ ...part, text }] : [];
  });
}

function within(removed: string, added: string): Row[] {
  const words = diffWordsWithSpace(removed, added);
  const taken = words.filter((word) => !word.added).map((word) => ({ text: word.value, changed: word.removed === true }));
  const put = words.filter((word) => !word.removed).map((word) => ({ text: word.value, changed: word.added === true }));
  return [...split(taken, "-"), ...split(put, "+")];
}

/** Rows of lines, made from pieces that may hold line ends. */
function split(pieces: Part[], sign: Row["sign"]): Row[] {
  const rows: Row[] = [{ sign, parts: [] }];
  for (const piece of pieces) {
    piece.text.split("\n").forEach((text, index) => {
      if (index > 0) rows.push({ sign, parts: [] });
      if (text) rows.at(-1)!.parts.push({ text, changed: piece.changed });
    });
  }
  if (rows.length > 1 && rows.at(-1)!.parts.length === 0) rows.pop();
  return rows;
}
