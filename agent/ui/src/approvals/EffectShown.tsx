import { Code } from "../components/Code";
import { Lines } from "../chat/calls/Lines";
import { duration } from "../text/time";
import { harmless, linesOf, visible } from "../text/visible";
import { Paths } from "../turns/Paths";
import { CallShown } from "./CallShown";
import { EffectPictures } from "./EffectPictures";
import type { Effect, Request } from "./question";

const PARTS = [
  { part: "deleted", word: "deleted", pill: "bad" },
  { part: "changed", word: "changed", pill: "" },
  { part: "created", word: "made", pill: "good" },
] as const;

/** A call that has run, and what it did: in words with the sizes, changes of texts, pictures, all paths, and the output. */
export function EffectShown({ request, effect }: { request: Request; effect: Effect }) {
  const { words, diff } = partsOf(request);
  const lines = linesOf(effect.output);
  return (
    <>
      <CallShown request={request} />
      <p className="note bar">
        <span className={`pill ${effect.exit_code === 0 ? "good" : "bad"}`}>exit {effect.exit_code}</span>
        <span>{duration(effect.seconds)}</span>
      </p>
      {words && <Code code={words} label="What it did" />}
      {diff && <Code code={diff} language="diff" label="Changes of texts" />}
      <EffectPictures effect={effect} />
      <details className="fold">
        <summary>Paths: {countsOf(effect)}</summary>
        <ul>
          {PARTS.map(({ part, word, pill }) => (
            <Paths key={part} paths={effect[part]} more={effect.more?.[part] ?? 0}>
              {(path) => (
                <>
                  <span className={`pill ${pill}`}>{word}</span> <code>{harmless(path)}</code>
                </>
              )}
            </Paths>
          ))}
        </ul>
      </details>
      <details className="fold">
        <summary>{lines.length > 0 ? "Output" : "It printed nothing."}</summary>
        {lines.length > 0 && <Lines lines={lines} running={false} label="Output" />}
      </details>
    </>
  );
}

/** The last blank of a line, which the server writes out in a description. */
const LAST_BLANK = /[ \t](?=\n|$)/g;

function countsOf(effect: Effect): string {
  const counts = PARTS.map(({ part, word }) => [effect[part].length + (effect.more?.[part] ?? 0), word] as const);
  return counts.flatMap(([count, word]) => (count > 0 ? `${count.toLocaleString("en")} ${word}` : [])).join(", ") || "none";
}

/**
 * What the description says after the arguments of the call, and the diff in it. The arguments are passed over, so that
 * no command can look like a diff.
 */
function partsOf({ args, description }: Request): { words: string; diff: string } {
  let at = 0;
  for (const [name, value] of Object.entries(args)) {
    if (typeof value !== "string") continue;
    const text = visible(value.replace(LAST_BLANK, (blank) => (blank === " " ? "‹U+0020›" : "‹U+0009›")));
    const lines = text.split("\n").length;
    const shown = lines === 1 ? `${visible(name)}: ${text}` : `${visible(name)} (${lines} lines):\n${text}`;
    const found = description.indexOf(shown, at);
    if (found < 0) return { words: description, diff: "" };
    at = found + shown.length;
  }
  const said = description.slice(at);
  const [, before, diff, after] = /^([^]*?)\n```diff\n([^]*?)\n```(?:\n([^]*))?$/.exec(said) ?? [];
  if (diff === undefined) return { words: said.trim(), diff: "" };
  return { words: [before, after].map((text) => text?.trim()).filter(Boolean).join("\n\n"), diff };
}
