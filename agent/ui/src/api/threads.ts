import { ask, send } from "./http";

export interface ThreadSummary {
  thread_id: string;
  updated_at: string;
  status: "idle" | "busy" | "interrupted" | "error";
  /** The beginning of the first message. */
  title: string;
  /** The graph of the thread's runs; null if the thread has had no run. */
  agent: string | null;
}

/** A thread as the server sends it. */
interface FoundThread extends Omit<ThreadSummary, "title" | "agent"> {
  /** Task -> its open questions. */
  interrupts: Record<string, unknown[]> | null;
  metadata: Record<string, unknown> | null;
  extracted?: { first?: unknown } | null;
}

const MOST_THREADS = 500;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** List the threads, the latest first. */
export const listThreads = (): Promise<ThreadSummary[]> =>
  search({ limit: MOST_THREADS, sort_by: "updated_at", sort_order: "desc" });

/** Find a thread by its id; null if the server has no such thread. */
export async function findThread(thread: string): Promise<ThreadSummary | null> {
  // The server refuses an id of another form.
  return UUID.test(thread) ? ((await search({ ids: [thread], limit: 1 }))[0] ?? null) : null;
}

async function search(wanted: object): Promise<ThreadSummary[]> {
  const found = await send<FoundThread[]>("POST", "/threads/search", {
    ...wanted,
    select: ["thread_id", "updated_at", "status", "metadata", "interrupts"],
    extract: { first: "values.messages[0].content" },
  });
  return found.map(summary);
}

/** Create a thread without a run. */
export async function createThread(): Promise<string> {
  const made = await send<{ thread_id: string }>("POST", "/threads", {});
  return made.thread_id;
}

/** Stop the runs of a thread, wait for their end, and delete the thread: an active run would write it again. */
export async function deleteThread(thread: string): Promise<void> {
  const runs = `/threads/${thread}/runs`;
  for (const status of ["pending", "running"]) {
    const active = await ask<{ run_id: string }[]>(`${runs}?status=${status}`);
    // A run that has ended meanwhile cannot be cancelled.
    await Promise.allSettled(active.map((run) => send("POST", `${runs}/${run.run_id}/cancel?wait=true`)));
  }
  await send("DELETE", `/threads/${thread}`);
}

function summary(found: FoundThread): ThreadSummary {
  const { metadata, extracted, interrupts, ...thread } = found;
  // The server also calls a thread interrupted if its last run was stopped.
  const waits = Object.values(interrupts ?? {}).some((questions) => questions.length > 0);
  if (thread.status === "interrupted" && !waits) thread.status = "idle";
  const graph = metadata?.["graph_id"];
  return { ...thread, title: titled(textOf(extracted?.first)), agent: typeof graph === "string" ? graph : null };
}

/** The text of a message's content, which is a string or a list of parts. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: unknown }) => (typeof part?.text === "string" ? part.text : "")).join(" ");
}

/** The title of a chat whose first message is `text`. */
export function titled(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  if (!line) return "New chat";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}
