import type { Conversation } from "./useConversation";

type Stream = Conversation["stream"];
type Client = Stream["client"];

/** The runs of a thread that run or wait for their turn. */
export async function activeRuns(client: Client, thread: string) {
  const runs = await client.runs.list(thread, { limit: 10 });
  return runs.filter(({ status }) => status === "running" || status === "pending");
}

/** The ids of the interrupts and messages in a thread's state, and the error of its last run. */
export async function stateOf(client: Client, thread: string) {
  const { tasks, values } = await client.threads.getState<{ messages?: { id?: string }[] }>(thread);
  const messages: ReadonlySet<string> = new Set(values.messages?.map(({ id }) => id ?? ""));
  const waiting: ReadonlySet<string> = new Set(tasks.flatMap((task) => task.interrupts.map(({ id }) => id ?? "")));
  const error = tasks.map((task) => task.error).find(Boolean);
  return { waiting, messages, failure: error ? String(error) : null };
}

/**
 * Whether a thread takes a message: no run is active and no question waits.
 *
 * If a question waits, the server takes a message as the answer to the question.
 */
export async function takesMessage(client: Client, thread: string | null): Promise<boolean> {
  if (!thread) return true;
  try {
    return (await activeRuns(client, thread)).length === 0 && (await stateOf(client, thread)).waiting.size === 0;
  } catch (error) {
    // The thread does not exist or belongs to someone else: the error of the next request says so.
    const { status } = error as { status?: number };
    return status !== undefined && status < 500;
  }
}

/**
 * Send a message to a thread that takes one.
 *
 * After a run that was stopped, the server takes a message as the answer to a question, and the message is lost. So
 * the steps of that run that are left are dropped, the message is written to the thread's state as its input, and the
 * run starts without input.
 */
export async function sendMessage(stream: Stream, thread: string | null, text: string): Promise<void> {
  const input = { messages: [{ type: "human", content: text }] };
  const { client } = stream;
  if (!thread || !(await wasStopped(client, thread))) {
    void stream.submit(input as never);
    return;
  }
  await client.threads.updateState(thread, { values: null, asNode: "__end__" });
  await client.threads.updateState(thread, { values: input, asNode: "__input__" });
  void stream.submit(null);
}

async function wasStopped(client: Client, thread: string): Promise<boolean> {
  try {
    const [latest] = await client.runs.list(thread, { limit: 1 });
    return latest?.status === "interrupted";
  } catch {
    return false; // The error of the next request says why.
  }
}

/** Milliseconds between looks for a run that was just started, and the number of looks. */
const LOOK = 250;
const LOOKS = 8;

/** Cancel all runs of a thread and wait for their end. The stream can cancel only the runs that it started. */
export async function stopRuns(stream: Stream, thread: string): Promise<void> {
  let active = await activeRuns(stream.client, thread);
  // The request that starts the run may still be on its way.
  for (let look = 1; active.length === 0 && look < LOOKS; look++) {
    await new Promise((resolve) => setTimeout(resolve, LOOK));
    active = await activeRuns(stream.client, thread);
  }
  await Promise.allSettled(active.map((run) => stream.client.runs.cancel(thread, run.run_id, true)));
  await stream.disconnect();
}
