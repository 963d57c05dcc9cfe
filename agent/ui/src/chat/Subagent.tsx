import { useMessages, type AnyStream } from "@langchain/react";
import { useMemo } from "react";
import { harmless, visible } from "../text/visible";
import { CallCard } from "./Calls";
import { itemsOf, type Call } from "./conversation";
import { Markdown } from "./Markdown";
import type { Outputs } from "./outputs";
import { StateIcon, type RunState } from "./RunCard";

interface SubagentProps {
  call: Call;
  stream: AnyStream;
  outputs: Outputs;
  busy: boolean;
  asked: boolean;
  thread: string | null;
}

/** A task that the agent has handed to another: what it was told, what it does, and its answer. */
export function Subagent({ call, stream, outputs, busy, asked, thread }: SubagentProps) {
  const found = stream.subagents.get(call.id);
  const messages = useMessages(stream, found ?? { namespace: [`tools:${call.id}`] });
  const items = useMemo(() => itemsOf(messages), [messages]);
  const state: RunState = call.result ? (call.result.failed ? "failed" : "done") : asked ? "waiting" : busy ? "running" : "stopped";
  const task = String(call.args["description"] ?? "");
  const name = String(call.args["subagent_type"] ?? "subagent");
  return (
    <details className={`card subagent ${state}`} open={!call.result || undefined}>
      <summary>
        <StateIcon state={state} />
        <span className="card-title">
          Subagent <code>{visible(name)}</code>
        </span>
        <span className="card-about">{harmless(task)}</span>
        <span className="card-facts">
          <span className="pill">{call.result ? "done" : asked ? "waits for you" : busy ? "at work" : "stopped"}</span>
        </span>
      </summary>
      <div className="task">
        <Markdown text={task} thread={thread} version={call.id} />
      </div>
      <div className="steps">
        {items.map((item) => {
          if (item.kind === "call") {
            return (
              <CallCard key={item.key} call={item.call} outputs={outputs} busy={busy} asked={asked} granted={undefined} />
            );
          }
          return item.kind === "reply" && !call.result ? <Markdown key={item.key} text={item.text} thread={thread} version={item.key} /> : null;
        })}
      </div>
      {call.result && <Markdown text={call.result.text} thread={thread} version={call.id} />}
    </details>
  );
}
