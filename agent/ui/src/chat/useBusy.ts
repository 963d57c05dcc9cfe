import { useEffect, useState } from "react";
import type { Conversation } from "./useConversation";

/** Milliseconds between looks, and how many of them in a row must say that nothing runs. */
const LOOK = 2_000;
const SURE = 2;

/**
 * Whether the agent is at work in a thread.
 *
 * The stream says so as long as it has not heard the end of a run, and of one that was stopped, or that ended with its
 * server, it hears none. So the server's list of runs is looked at, too.
 */
export function useBusy(stream: Conversation["stream"], thread: string | null): boolean {
  const [over, setOver] = useState(false);
  const { client, isLoading } = stream;
  useEffect(() => {
    setOver(false);
    if (!isLoading || !thread) return;
    let idle = 0;
    const timer = setInterval(() => {
      void client.runs.list(thread, { limit: 1 }).then(
        ([latest]) => {
          const ended = latest !== undefined && latest.status !== "pending" && latest.status !== "running";
          idle = ended ? idle + 1 : 0;
          setOver(idle >= SURE);
        },
        () => undefined,
      );
    }, LOOK);
    return () => clearInterval(timer);
  }, [client, thread, isLoading]);
  return isLoading && !over;
}
