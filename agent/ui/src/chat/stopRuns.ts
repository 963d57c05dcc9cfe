import type { Conversation } from "./useConversation";

/** Stop whatever runs in a thread, and come back when it has ended. The stream knows only runs it has begun itself. */
export async function stopRuns(stream: Conversation["stream"], thread: string): Promise<void> {
  const { runs } = stream.client;
  const latest = await runs.list(thread, { limit: 10 });
  const going = latest.filter(({ status }) => status === "running" || status === "pending");
  await Promise.allSettled(going.map((run) => runs.cancel(thread, run.run_id, true)));
  await stream.disconnect();
}
