import type { AIMessage, BaseMessage, ToolMessage } from "@langchain/core/messages";

/** A tool call; its result is null until the call has ended. */
export interface Call {
  id: string;
  name: string;
  /** The arguments that ran. */
  args: Record<string, unknown>;
  /** Whether a person has changed the arguments. */
  edited: boolean;
  result: Result | null;
}

interface Result {
  text: string;
  failed: boolean;
  rejected: boolean;
  exitCode: number | null;
  seconds: number | null;
  /** Why the end of a command is unknown. The text then explains it. */
  interrupted: Interrupted;
}

export type Interrupted = "stopped" | "ended" | null;

/** The result of a code block, as the thread keeps it. */
export interface Block {
  key: string;
  language: string;
  exitCode: number | null;
  seconds: number | null;
  output: string;
  /** Why a person rejected the block; null if it was not rejected. */
  refused: string | null;
}

export type Item =
  | { kind: "person"; key: string; text: string }
  | { kind: "reply"; key: string; text: string }
  | { kind: "call"; key: string; call: Call }
  | { kind: "blocks"; key: string; reply: string; blocks: Block[] };

/** Turn the messages of a thread into what the page shows, in order. */
export function itemsOf(messages: readonly BaseMessage[]): Item[] {
  const tools = messages.filter((message) => message.getType() === "tool") as ToolMessage[];
  const results = new Map(tools.map((message) => [message.tool_call_id, message]));
  const items: Item[] = [];
  let reply = "";
  messages.forEach((message, index) => {
    const key = message.id ?? String(index);
    const kind = message.getType();
    if (kind === "human") {
      const { said_by: saidBy } = message.response_metadata as { said_by?: string };
      const source = message.additional_kwargs["lc_source"];
      // The output of code blocks is a human message to the model. A message with a source, such as a summary, is not shown.
      if (saidBy === "loop") items.push(...blocksOf(message, reply, key));
      else if (!source) items.push({ kind: "person", key, text: message.text });
    } else if (kind === "ai") {
      reply = message.id ?? "";
      // The mark of libs/middleware/approvals/edited_calls.py.
      const { edited_calls: edits } = message.response_metadata as { edited_calls?: Record<string, Call["args"]> };
      if (message.text.trim()) items.push({ kind: "reply", key, text: message.text });
      ((message as AIMessage).tool_calls ?? []).forEach(({ id, name, args }, at) => {
        const call = id ?? `${message.id}-${at}`;
        const changed = edits?.[call];
        const result = resultOf(results.get(call));
        items.push({ kind: "call", key: call, call: { id: call, name, args: changed ?? args ?? {}, edited: changed !== undefined, result } });
      });
    }
  });
  return items;
}

function resultOf(message: ToolMessage | undefined): Result | null {
  if (!message) return null;
  const { status } = message;
  const artifact = message.artifact as Command | Program | Rejected | null | undefined;
  if (artifact && "metrics" in artifact) return resultOfProgram(artifact);
  const ran = artifact && "exit_code" in artifact ? artifact : null;
  return {
    text: ran?.output ?? message.text,
    failed: status === "error" || (ran !== null && ran.exit_code !== 0),
    rejected: artifact != null && "rejected" in artifact,
    exitCode: ran?.exit_code ?? null,
    seconds: ran?.seconds ?? null,
    interrupted: ran?.interrupted ?? null,
  };
}

/** The result of a command, `RunResult` of libs/sandbox/protocol.py. */
interface Command {
  output: string;
  exit_code: number;
  seconds: number;
  /** Missing in threads of earlier versions. */
  interrupted?: Interrupted;
}

/** The mark of a call that a person rejected, as libs/middleware/approvals/approval_middleware.py writes it. */
interface Rejected {
  rejected: true;
}

/** The result of `execute_code`, as libs/exec_tool/outcome/execution_outcome.py writes it. */
interface Program {
  ok: boolean;
  stdout: string;
  stderr: string;
  note?: string;
  error: { message: string; hint: string } | null;
  metrics: { exit_code: number | null; total: number };
}

function resultOfProgram({ ok, stdout, stderr, note, error, metrics }: Program): Result {
  const parts = [stdout, stderr, note, error && `${error.message}\n${error.hint}`];
  return { text: parts.filter(Boolean).join("\n"), failed: !ok, rejected: false, exitCode: metrics.exit_code, seconds: metrics.total, interrupted: null };
}

/** The mark of a block, as libs/code_blocks/block_turn.py writes it. */
interface KeptBlock extends Omit<Block, "exitCode" | "output"> {
  exit_code: number | null;
  /** Missing in threads of earlier versions. */
  output?: string;
}

function blocksOf(message: BaseMessage, reply: string, key: string): Item[] {
  const kept = (message.response_metadata as Record<string, unknown>)["blocks"] as KeptBlock[] | undefined;
  if (!kept) return [];
  const blocks = kept.map((block) => ({
    ...block,
    exitCode: block.exit_code,
    // Without the mark, the text with the output of all blocks is shown. It says which output is whose.
    output: block.output ?? message.text,
  }));
  return [{ kind: "blocks", key, reply, blocks }];
}
