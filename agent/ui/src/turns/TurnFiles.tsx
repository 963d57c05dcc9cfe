import { useState } from "react";
import { Icon } from "../components/Icon";
import type { Moment } from "../files/api";
import { Preview } from "../files/Preview";
import { harmless } from "../text/visible";
import { Paths } from "./Paths";
import type { Turn, TurnChanges } from "./turnRoutes";

const PARTS = [
  { part: "created", word: "made", pill: "good" },
  { part: "changed", word: "changed", pill: "" },
  { part: "deleted", word: "deleted", pill: "bad" },
] as const;

/** The files that a turn made, changed and deleted. Each opens as it was after the turn; a deleted file as before. */
export function TurnFiles({ thread, turn }: { thread: string; turn: Turn }) {
  const [shown, setShown] = useState<{ path: string; at: Moment } | null>(null);
  const { files, number } = turn;
  if (!files) return <p className="note">Which files this turn changed is not known: a snapshot is missing.</p>;
  const missing = Object.keys(files.not_kept);
  if (missing.length === 0 && PARTS.every(({ part }) => files[part].length === 0)) return null;
  return (
    <details className="card fold turn-files">
      <summary className="bar">
        <Icon name="files" />
        <h2 className="grow">Files of this turn: {countsOf(files)}</h2>
        <Icon name="chevron" />
      </summary>
      <ul>
        {PARTS.map(({ part, word, pill }) => (
          <Paths key={part} paths={files[part]}>
            {(path) => (
              <div className="bar">
                <span className={`pill ${pill}`}>{word}</span>
                <button
                  type="button"
                  className="quiet cut"
                  aria-expanded={shown?.path === path}
                  onClick={() => setShown({ path, at: { turn: number, moment: part === "deleted" ? "before" : "after" } })}
                >
                  {harmless(path)}
                </button>
              </div>
            )}
          </Paths>
        ))}
        <Paths paths={missing}>
          {(path) => (
            <>
              <span className="pill bad">not kept</span> <code>{harmless(path)}</code>
              <span className="note">: {harmless(files.not_kept[path] ?? "")}</span>
            </>
          )}
        </Paths>
      </ul>
      {shown && (
        <Preview
          key={shown.path}
          thread={thread}
          path={shown.path}
          at={shown.at}
          state={{ version: "" }}
          onClose={() => setShown(null)}
        />
      )}
    </details>
  );
}

function countsOf(files: TurnChanges): string {
  const counts: [number, string][] = [
    ...PARTS.map(({ part, word }): [number, string] => [files[part].length, word]),
    [Object.keys(files.not_kept).length, "not kept"],
  ];
  return counts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count.toLocaleString("en")} ${word}`)
    .join(", ");
}
