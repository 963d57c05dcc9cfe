import type { Conversation } from "./useConversation";

type Client = Conversation["stream"]["client"];

/** Whether the server has a run of a thread at work, or one that waits for its turn. */
export async function running(client: Client, thread: string): Promise<boolean> {
  const runs = await client.runs.list(thread, { limit: 10 });
  return runs.some(({ status }) => status === "running" || status === "pending");
}

/** The ids of the questions that a thread's state waits with. */
export async function waitingIn(client: Client, thread: string): Promise<ReadonlySet<string>> {
  const { tasks } = await client.threads.getState(thread);
  return new Set(tasks.flatMap((task) => task.interrupts.map(({ id }) => id ?? "")));
}

/**
 * Whether a thread takes a message: nothing runs in it, and no question waits.
 *
 * To the server, what is said while a question waits is the answer to it.
 */
export async function atRest(client: Client, thread: string | null): Promise<boolean> {
  if (!thread) return true;
  try {
    return !(await running(client, thread)) && (await waitingIn(client, thread)).size === 0;
  } catch (error) {
    // A thread that is not there, or is another's: whoever sends to it is told so.
    const { status } = error as { status?: number };
    return status !== undefined && status < 500;
  }
}
