import { useMessages } from "@langchain/react";
import { useMemo } from "react";
import { harmless, visible } from "../../text/visible";
import { CallCard } from "../calls/CallCard";
import { StateIcon, type RunState } from "../calls/RunCard";
import { useChat } from "../stream/ChatContext";
import { itemsOf, type Call } from "../stream/itemsOf";
import { Markdown } from "./Markdown";

const STATUS_TEXT: Partial<Record<RunState, string>> = { waiting: "waits for you", running: "at work", stopped: "stopped" };

/** A task that the agent gave to a subagent: the task, the subagent's calls and its answer. */
export function Subagent({ call }: { call: Call }) {
  const { stream, thread, busy, asked } = useChat();
  const messages = useMessages(stream, stream.subagents.get(call.id) ?? { namespace: [`tools:${call.id}`] });
  const items = useMemo(() => itemsOf(messages), [messages]);
  const state = stateOf(call, busy, asked);
  const task = String(call.args["description"] ?? "");
  const name = String(call.args["subagent_type"] ?? "subagent");
  return (
    <details className={`card subagent ${state}`} open={!call.result || undefined}>
      <summary className="bar">
        <StateIcon state={state} />
        <span className="card-title cut">
          Subagent <code>{visible(name)}</code>
        </span>
        <span className="note cut grow">{harmless(task)}</span>
        <span className="card-facts bar">
          <span className="pill">{STATUS_TEXT[state] ?? "done"}</span>
        </span>
      </summary>
      <div className="task note">
        <Markdown text={task} thread={thread} version={call.id} />
      </div>
      <div className="steps stack">
        {items.map((item) => {
          if (item.kind === "call") return <CallCard key={item.key} call={item.call} />;
          if (item.kind !== "reply" || call.result) return null;
          return <Markdown key={item.key} text={item.text} thread={thread} version={item.key} />;
        })}
      </div>
      {call.result && <Markdown text={call.result.text} thread={thread} version={call.id} />}
    </details>
  );
}

function stateOf({ result }: Call, busy: boolean, asked: boolean): RunState {
  if (result) return result.failed ? "failed" : "done";
  if (asked) return "waiting";
  return busy ? "running" : "stopped";
}
