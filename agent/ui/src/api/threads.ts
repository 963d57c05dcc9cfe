import { ask, send } from "./http";

export interface ThreadSummary {
  thread_id: string;
  created_at: string;
  updated_at: string;
  status: "idle" | "busy" | "interrupted" | "error";
  /** What the thread is called: its first message. */
  title: string;
  /** The graph that its runs are of; null for a thread without one. */
  agent: string | null;
}

interface Found {
  thread_id: string;
  created_at: string;
  updated_at: string;
  status: ThreadSummary["status"];
  metadata: Record<string, unknown> | null;
  extracted?: { first?: unknown } | null;
}

/** As many as a person can look through. */
const MOST_THREADS = 500;

/** The threads there are, the latest first. */
export async function listThreads(): Promise<ThreadSummary[]> {
  const found = await send<Found[]>("POST", "/threads/search", {
    limit: MOST_THREADS,
    sort_by: "updated_at",
    sort_order: "desc",
    select: ["thread_id", "created_at", "updated_at", "status", "metadata"],
    extract: { first: "values.messages[0].content" },
  });
  return found.map(summary);
}

/** Make a thread before anything is said in it. */
export async function createThread(agent: string): Promise<string> {
  const made = await send<{ thread_id: string }>("POST", "/threads", { metadata: { graph_id: agent } });
  return made.thread_id;
}

export const deleteThread = (thread: string): Promise<void> => send("DELETE", `/threads/${thread}`);

/** The graph whose thread this is; null where it has not run yet. */
export async function agentOf(thread: string): Promise<string | null> {
  return summary(await ask<Found>(`/threads/${thread}`)).agent;
}

function summary(found: Found): ThreadSummary {
  const graph = found.metadata?.["graph_id"];
  return {
    thread_id: found.thread_id,
    created_at: found.created_at,
    updated_at: found.updated_at,
    status: found.status,
    title: titled(words(found.extracted?.first)),
    agent: typeof graph === "string" ? graph : null,
  };
}

/** The words of a message's content, which is text or a list of parts. */
function words(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: unknown }) => (typeof part?.text === "string" ? part.text : "")).join(" ");
}

/** What a chat that begins with `text` is called. */
export function titled(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  if (!line) return "New chat";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}
