import type { Call } from "./conversation";
import type { Outputs } from "./outputs";
import { RunCard, type RunState } from "./RunCard";
import { ToolCard } from "./ToolCard";

interface CallCardProps {
  call: Call;
  outputs: Outputs;
  /** Whether the agent is at work. */
  busy: boolean;
  /** Whether calls without a result wait for a person. */
  asked: boolean;
  granted: string | undefined;
}

/** A call of the deep agent. One that waits for approval is shown where it is asked about, not here. */
export function CallCard({ call, outputs, busy, asked, granted }: CallCardProps) {
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
      output={call.result?.text ?? null}
      exitCode={call.result?.exitCode ?? null}
      seconds={call.result?.seconds ?? null}
      granted={granted}
    />
  );
}

function stateOf({ result }: Call, busy: boolean): RunState {
  if (!result) return busy ? "running" : "stopped";
  if (result.text.startsWith("A person rejected this")) return "refused";
  return result.failed ? "failed" : "done";
}
