import type { BaseMessage } from "@langchain/core/messages";

/** A call of a tool, with its result once there is one. */
export interface Call {
  id: string;
  name: string;
  args: Record<string, unknown>;
  result: Result | null;
}

export interface Result {
  text: string;
  failed: boolean;
  exitCode: number | null;
  seconds: number | null;
}

/** What a block of the code agent came to, as the thread keeps it. */
export interface Block {
  key: string;
  language: string;
  exitCode: number | null;
  seconds: number | null;
  output: string;
  /** Why a person did not let it run. */
  refused: string | null;
}

export type Item =
  | { kind: "person"; key: string; text: string }
  | { kind: "reply"; key: string; text: string; thoughts: string }
  | { kind: "call"; key: string; call: Call }
  | { kind: "blocks"; key: string; reply: string; blocks: Block[]; told: boolean };

/** What deepagents adds to a command's output for the model. */
const VERDICT = /\n\[Command (?:succeeded|failed) with exit code -?\d+\](?:\n\[Output was truncated.*\])?$/;

/** What was said and done in a thread, in order. */
export function itemsOf(messages: readonly BaseMessage[]): Item[] {
  const results = new Map<string, BaseMessage>();
  for (const message of messages) {
    if (message.getType() === "tool") results.set((message as unknown as ToolResult).tool_call_id, message);
  }
  const items: Item[] = [];
  let reply = "";
  messages.forEach((message, index) => {
    const key = message.id ?? String(index);
    const kind = message.getType();
    if (kind === "human") {
      const { said_by: saidBy } = message.response_metadata as { said_by?: string };
      const source = message.additional_kwargs["lc_source"];
      // To the code agent, what its blocks have printed is said by the user; a summary is said by nobody.
      if (saidBy === "loop") items.push(...blocksOf(message, reply, key));
      else if (!source) items.push({ kind: "person", key, text: message.text });
    } else if (kind === "ai") {
      reply = message.id ?? "";
      const thoughts = thoughtsIn(message);
      if (message.text.trim() || thoughts) items.push({ kind: "reply", key, text: message.text, thoughts });
      for (const call of callsOf(message)) {
        items.push({ kind: "call", key: call.id, call: { ...call, result: resultOf(results.get(call.id)) } });
      }
    }
  });
  return items;
}

interface ToolResult {
  tool_call_id: string;
  status?: string;
  artifact?: { exit_code?: number; seconds?: number } | null;
}

interface WithCalls {
  tool_calls?: { id?: string; name: string; args: Record<string, unknown> }[];
}

function callsOf(message: BaseMessage): Omit<Call, "result">[] {
  const calls = (message as unknown as WithCalls).tool_calls ?? [];
  return calls.map((call, index) => ({
    id: call.id ?? `${message.id}-${index}`,
    name: call.name,
    args: call.args ?? {},
  }));
}

function resultOf(message: BaseMessage | undefined): Result | null {
  if (!message) return null;
  const { artifact, status } = message as unknown as ToolResult;
  const program = programIn(artifact, message.text);
  if (program) return program;
  const exitCode = artifact?.exit_code ?? null;
  return {
    text: message.text.replace(VERDICT, ""),
    failed: status === "error" || (exitCode !== null && exitCode !== 0),
    exitCode,
    seconds: artifact?.seconds ?? null,
  };
}

/** What the one-tool agent's call came to, as libs/exec_tool/outcome.py tells it. */
interface Program {
  ok: boolean;
  stdout: string;
  stderr: string;
  result: unknown;
  note?: string;
  error: { message: string; hint: string } | null;
  metrics: { exit_code: number | null; total: number };
}

function programIn(artifact: unknown, text: string): Result | null {
  let told = artifact as Program | null;
  if (!told?.metrics && text.startsWith("{")) {
    try {
      told = JSON.parse(text) as Program;
    } catch {
      return null;
    }
  }
  if (!told?.metrics) return null;
  const said = [told.stdout, told.stderr, told.note, told.error && `${told.error.message}\n${told.error.hint}`];
  return {
    text: said.filter(Boolean).join("\n"),
    failed: !told.ok,
    exitCode: told.metrics.exit_code,
    seconds: told.metrics.total,
  };
}

interface KeptBlock {
  key: string;
  language: string;
  exit_code: number | null;
  seconds: number | null;
  refused: string | null;
}

const OUTPUT = /^(`{3,})output\n([\s\S]*?)\n\1$/gm;
const PRINTED = /^(?:Block (\d+) \(\w+\)|The \w+ block) (?:succeeded|failed with exit code -?\d+):$/gm;

function blocksOf(message: BaseMessage, reply: string, key: string): Item[] {
  const kept = (message.response_metadata as Record<string, unknown>)["blocks"] as KeptBlock[] | undefined;
  if (!kept) return [];
  const outputs = [...message.text.matchAll(OUTPUT)].map((found) => found[2] ?? "");
  // Which blocks have printed anything, in the order of their outputs.
  const printed = [...message.text.replace(OUTPUT, "").matchAll(PRINTED)].map((found) => Number(found[1] ?? 1) - 1);
  const blocks = kept.map((block, index) => ({
    key: block.key,
    language: block.language,
    exitCode: block.exit_code,
    seconds: block.seconds,
    output: printed.includes(index) ? (outputs[printed.indexOf(index)] ?? "") : "",
    refused: block.refused,
  }));
  return [{ kind: "blocks", key, reply, blocks, told: true }];
}

function thoughtsIn(message: BaseMessage): string {
  if (!Array.isArray(message.content)) return "";
  const parts = message.content as { type?: string; reasoning?: string; thinking?: string }[];
  return parts.map((part) => part.reasoning ?? part.thinking ?? "").join("");
}
