import { useChannelEffect, useStream } from "@langchain/react";
import type { BaseMessage } from "@langchain/core/messages";
import { useEffect, useMemo, useReducer, useRef, useState } from "react";
import type { Question } from "../../approvals/question";
import { Outputs } from "./outputs";

export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** The parts of an agent's state that the page reads. */
interface AgentState {
  messages: BaseMessage[];
  todos?: Todo[];
  /** Paths that the latest message names and that did not exist when its run began. */
  absent_paths?: string[];
  /** For calls of the latest turn: tool call id -> scope of the earlier approval that covers the call. */
  granted_calls?: Record<string, string>;
  [key: string]: unknown;
}

/** The stream reconnects without an end: the server usually runs on the same machine and comes back. */
const CONNECTION = { maxReconnectAttempts: 10_000, reconnectDelayMs: (attempt: number) => Math.min(250 * attempt, 2_000) };

export type Conversation = ReturnType<typeof useConversation>;

/**
 * A thread's live state and interrupts, and the output of its commands.
 *
 * The stream chooses the id of a new thread, and the server creates the thread with its first run. `onThread` is called
 * only then, so that the page does not request a thread that does not exist yet.
 */
export function useConversation(agent: string, thread: string | null, onThread: (id: string) => void) {
  const [chosen, setChosen] = useState(thread);
  const created = useRef<string | null>(null);
  useEffect(
    () => () => {
      created.current = null; // Another chat is open now, which must not get this thread.
    },
    [],
  );
  const stream = useStream<AgentState, Question>({
    assistantId: agent,
    apiUrl: window.location.origin,
    threadId: thread ?? chosen,
    onThreadId: (id) => {
      created.current = id;
      setChosen(id);
    },
    onCreated: () => {
      if (created.current) onThread(created.current);
      created.current = null;
    },
    ...CONNECTION,
  });
  const [, render] = useReducer((count: number) => count + 1, 0);
  const outputs = useMemo(() => new Outputs(render), []);
  useChannelEffect(stream, ["custom", "tools", "messages", "lifecycle"], {
    replay: true,
    bufferSize: 256,
    onEvent: (event) => outputs.feed(event as Parameters<Outputs["feed"]>[0]),
  });
  return { stream, outputs };
}
