import { useChat } from "../stream/ChatContext";
import type { Call } from "../stream/itemsOf";
import { RunCard, type RunState } from "./RunCard";
import { ToolCard } from "./ToolCard";

/** A tool call. A call that waits for approval is shown only among the approvals. */
export function CallCard({ call }: { call: Call }) {
  const { stream, outputs, busy, asked } = useChat();
  const live = outputs.of(call.id);
  if (!call.result && asked && live?.began == null) return null;
  const state = stateOf(call, busy);
  const program = call.name === "execute_code";
  if (call.name !== "execute" && !program) return <ToolCard call={call} state={state} />;
  return (
    <RunCard
      title={program ? "Program" : "Command"}
      code={String(call.args[program ? "code" : "command"] ?? "")}
      language={program ? String(call.args["language"] ?? "python") : "bash"}
      state={state}
      live={live}
      result={call.result}
      edited={call.edited}
      granted={stream.values.granted_calls?.[call.id]}
    />
  );
}

function stateOf({ result }: Call, busy: boolean): RunState {
  if (!result) return busy ? "running" : "stopped";
  if (result.rejected) return "refused";
  if (result.interrupted) return "stopped";
  return result.failed ? "failed" : "done";
}
