import { Fragment } from "react";
import { PersonActions } from "../../turns/PersonActions";
import { TurnFiles } from "../../turns/TurnFiles";
import type { Turn } from "../../turns/turnRoutes";
import { harmless } from "../../text/visible";
import { Blocks } from "../calls/Blocks";
import { CallCard } from "../calls/CallCard";
import { useChat } from "../stream/ChatContext";
import type { Item } from "../stream/itemsOf";
import { imagesNamed, imagesShown } from "./images";
import { Markdown } from "./Markdown";
import { Plots, TurnPlots } from "./Plots";
import { Subagent } from "./Subagent";

/** The messages and calls of a chat, in order, and below each turn its files. */
export function Items({ items }: { items: readonly Item[] }) {
  const { outputs, thread, busy, asked, turns } = useChat();
  const draft = busy ? outputs.draft() : null;
  const last = items.at(-1);
  const turnOf = turnsOf(items, turns.turns);
  return (
    <>
      {items.map((item, index) => {
        const turn = turnOf[index];
        const ended = index + 1 < items.length ? turnOf[index + 1] !== turn : !busy && !asked;
        return (
          <Fragment key={item.key}>
            <ItemShown item={item} endsTurn={endsTurn(items, index, busy)} />
            {thread && turn && ended && turns.goes_back && <TurnFiles thread={thread} turn={turn} />}
          </Fragment>
        );
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

function ItemShown({ item, endsTurn }: { item: Item; endsTurn: boolean }) {
  const { thread, turns } = useChat();
  switch (item.kind) {
    case "person":
      return (
        <>
          <div className="person">
            <span className="hidden">You: </span>
            <p>{harmless(item.text)}</p>
          </div>
          {thread && turns.goes_back && <PersonActions thread={thread} message={item.key} />}
        </>
      );
    case "reply":
      return (
        <div className="reply">
          <span className="hidden">Agent: </span>
          <Markdown text={item.text} thread={thread} version={item.key} />
          {thread && endsTurn && <Plots paths={imagesNamed(item.text)} thread={thread} version={item.key} />}
        </div>
      );
    case "blocks":
      return <Blocks reply={item.reply} kept={item.blocks} />;
    case "call":
      if (item.call.name === "write_todos") return null;
      if (item.call.name === "task") return <Subagent call={item.call} />;
      return <CallCard call={item.call} />;
  }
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

/** The turn of each item; undefined if the server has not listed the turn yet. */
function turnsOf(items: readonly Item[], turns: readonly Turn[]): (Turn | undefined)[] {
  let turn: Turn | undefined;
  return items.map(({ kind, key }) => {
    if (kind === "person") turn = turns.find(({ messages }) => messages.includes(key));
    return turn;
  });
}
