import { useEffect, useState } from "react";
import type { Conversation } from "./useConversation";

/** Milliseconds between requests, and how many in a row must say that no run is active. */
const POLL = 2_000;
const CONFIRMATIONS = 2;

/**
 * Whether a run of a thread is active.
 *
 * The stream counts a run as active until its end event, which never comes for a run that was cancelled or that ended
 * with its server. So the hook also asks the server for the latest run.
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
          setOver(idle >= CONFIRMATIONS);
        },
        () => undefined,
      );
    }, POLL);
    return () => clearInterval(timer);
  }, [client, thread, isLoading]);
  return isLoading && !over;
}
