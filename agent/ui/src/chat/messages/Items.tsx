import { harmless } from "../../text/visible";
import { Blocks } from "../calls/Blocks";
import { CallCard } from "../calls/CallCard";
import { useChat } from "../stream/ChatContext";
import type { Item } from "../stream/itemsOf";
import { imagesNamed, imagesShown } from "./images";
import { Markdown } from "./Markdown";
import { Plots, TurnPlots } from "./Plots";
import { Subagent } from "./Subagent";

/** The messages and calls of a chat, in order. */
export function Items({ items }: { items: readonly Item[] }) {
  const { outputs, thread, busy, asked } = useChat();
  const draft = busy ? outputs.draft() : null;
  const last = items.at(-1);
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
                <Markdown text={item.text} thread={thread} version={item.key} />
                {thread && endsTurn(items, index, busy) && (
                  <Plots paths={imagesNamed(item.text)} thread={thread} version={item.key} />
                )}
              </div>
            );
          case "blocks":
            return <Blocks key={item.key} reply={item.reply} kept={item.blocks} />;
          case "call":
            if (item.call.name === "write_todos") return null;
            if (item.call.name === "task") return <Subagent key={item.key} call={item.call} />;
            return <CallCard key={item.key} call={item.call} />;
        }
      })}
      {last?.kind === "reply" && !asked && <Blocks reply={last.key} kept={null} />}
      {draft && !items.some((item) => item.key === draft.id) && (
        <div className="reply">
          <Markdown text={draft.text} thread={thread} version={draft.id} />
        </div>
      )}
      {thread && last && last.kind !== "person" && !busy && !asked && (
        <TurnPlots thread={thread} version={last.key} paths={last.kind === "reply" ? imagesIn(last.text) : []} said={lastTurn(items)} />
      )}
    </>
  );
}

const imagesIn = (text: string) => [...imagesNamed(text), ...imagesShown(text)];

/** The calls, outputs and replies of the last turn, as one text. */
function lastTurn(items: readonly Item[]): string {
  const begun = items.findLastIndex((item) => item.kind === "person");
  return items
    .slice(begun + 1)
    .map((item) => {
      if (item.kind === "call") return [...Object.values(item.call.args).map(String), item.call.result?.text ?? ""].join("\n");
      return item.kind === "blocks" ? item.blocks.map(({ output }) => output).join("\n") : item.text;
    })
    .join("\n");
}

/** Whether a reply is the last of its turn. All images of the turn exist then. */
function endsTurn(items: readonly Item[], index: number, busy: boolean): boolean {
  const next = items[index + 1];
  return next ? next.kind === "person" : !busy;
}
