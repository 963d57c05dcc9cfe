import { useEffect, useState } from "react";
import type { Conversation } from "./useConversation";

/** Milliseconds between requests while a run is active: the server logs each request. */
const POLL = 10_000;
/** Milliseconds to the next request after an answer that no run is active, and how many such answers are needed. */
const CONFIRM = 1_000;
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
    let timer = window.setTimeout(look, POLL);
    let left = false;
    async function look(): Promise<void> {
      const [latest] = await client.runs.list(thread!, { limit: 1 }).catch(() => []);
      if (left) return;
      const ended = latest !== undefined && latest.status !== "pending" && latest.status !== "running";
      idle = ended ? idle + 1 : 0;
      setOver(idle >= CONFIRMATIONS);
      timer = window.setTimeout(look, idle === 1 ? CONFIRM : POLL);
    }
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [client, thread, isLoading]);
  return isLoading && !over;
}
