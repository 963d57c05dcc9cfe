import type { AnyStream } from "@langchain/react";
import { harmless } from "../text/visible";
import { Blocks } from "./Blocks";
import { CallCard } from "./Calls";
import type { Item } from "./conversation";
import { imagesNamed, imagesShown } from "./images";
import { Markdown } from "./Markdown";
import type { Outputs } from "./outputs";
import { Plots } from "./Plots";
import { Subagent } from "./Subagent";
import { TurnPlots } from "./TurnPlots";

interface ItemsProps {
  items: readonly Item[];
  stream: AnyStream;
  outputs: Outputs;
  busy: boolean;
  asked: boolean;
  thread: string | null;
  granted: Record<string, string>;
}

/** What was said and done in a chat, in order. */
export function Items({ items, stream, outputs, busy, asked, thread, granted }: ItemsProps) {
  const draft = busy ? outputs.draft() : null;
  const last = items.at(-1);
  const drafted = draft && !items.some((item) => item.key === draft.id);
  return (
    <>
      {items.map((item, index) => {
        switch (item.kind) {
          case "person":
            return (
              <div key={item.key} className="person">
                <span className="hidden">You: </span>
                <p>{harmless(item.text)}</p>
              </div>
            );
          case "reply":
            return (
              <div key={item.key} className="reply">
                <span className="hidden">Agent: </span>
                {item.thoughts && <Thoughts text={item.thoughts} />}
                <Markdown text={item.text} thread={thread} version={item.key} />
                {thread && isAnswer(items, index, busy) && (
                  <Plots paths={imagesNamed(item.text)} thread={thread} version={item.key} />
                )}
              </div>
            );
          case "blocks":
            return <Blocks key={item.key} reply={item.reply} kept={item.blocks} outputs={outputs} busy={busy} />;
          case "call":
            if (item.call.name === "write_todos") return null;
            if (item.call.name === "task") {
              const props = { call: item.call, stream, outputs, busy, asked, thread };
              return <Subagent key={item.key} {...props} />;
            }
            return (
              <CallCard
                key={item.key}
                call={item.call}
                outputs={outputs}
                busy={busy}
                asked={asked}
                granted={granted[item.call.id]}
              />
            );
        }
      })}
      {last?.kind === "reply" && !asked && <Blocks reply={last.key} kept={null} outputs={outputs} busy={busy} />}
      {drafted && (
        <div className="reply">
          <Markdown text={draft.text} thread={thread} version={draft.id} />
        </div>
      )}
      {thread && last && last.kind !== "person" && !busy && !asked && (
        <TurnPlots stream={stream} thread={thread} version={last.key} without={last.kind === "reply" ? picturesIn(last.text) : []} />
      )}
    </>
  );
}

const picturesIn = (text: string) => [...imagesNamed(text), ...imagesShown(text)];

/** Whether a reply is the last of its turn: its pictures are there then. */
function isAnswer(items: readonly Item[], index: number, busy: boolean): boolean {
  const next = items[index + 1];
  return next ? next.kind === "person" : !busy;
}

function Thoughts({ text }: { text: string }) {
  return (
    <details className="thoughts">
      <summary>Thoughts</summary>
      <p>{harmless(text)}</p>
    </details>
  );
}
