import { useChannelEffect, useStream } from "@langchain/react";
import type { BaseMessage } from "@langchain/core/messages";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Question } from "../approvals/question";
import { Outputs } from "./outputs";

export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** What the page reads of an agent's state. */
export interface AgentState {
  messages: BaseMessage[];
  todos?: Todo[];
  /** How the latest run ended; null while it goes on. */
  status?: string | null;
  /** Of the latest turn: tool call id -> the scope of the earlier approval that covers it. */
  granted_calls?: Record<string, string>;
  [key: string]: unknown;
}

/** Reconnects for as long as it takes: the server is on the same machine, and comes back. */
const CONNECTION = { maxReconnectAttempts: 10_000, reconnectDelayMs: (attempt: number) => Math.min(250 * attempt, 2_000) };

export type Conversation = ReturnType<typeof useConversation>;

/** A thread, live: its state, its questions, and what its commands print. */
export function useConversation(agent: string, thread: string | null, onThread: (id: string) => void) {
  const stream = useStream<AgentState, Question>({
    assistantId: agent,
    apiUrl: window.location.origin,
    threadId: thread,
    onThreadId: onThread,
    ...CONNECTION,
  });
  const outputs = useMemo(() => new Outputs(), []);
  useChannelEffect(stream, ["custom", "tools"], {
    replay: true,
    bufferSize: 256,
    onEvent: (event) => outputs.feed(event as Parameters<Outputs["feed"]>[0]),
  });
  useSyncExternalStore(outputs.subscribe, outputs.read);
  return { stream, outputs };
}

/** Seconds since `began`, counted on while `running`. */
export function useElapsed(began: number | null, running: boolean): number | null {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, [running]);
  return began === null ? null : Math.max(0, (now - began) / 1000);
}
