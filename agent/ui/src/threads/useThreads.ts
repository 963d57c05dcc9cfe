import { useCallback, useEffect, useRef, useState } from "react";
import { listThreads, type ThreadSummary } from "../api/threads";

/** Seconds between looks at the list: other programs begin chats, too. */
const LOOK_AGAIN = 15;

/** Milliseconds until the server's list knows what has just happened: soon, or a little later. */
const SOON = 600;
const LATER = 2_500;

/** The list of threads. `reload` asks for it anew. */
export function useThreads(reachable: boolean) {
  const [threads, setThreads] = useState<ThreadSummary[]>([]);
  const timers = useRef<number[]>([]);
  const load = useCallback(() => {
    listThreads().then(setThreads, () => undefined);
  }, []);
  const reload = useCallback(() => {
    timers.current.forEach(clearTimeout);
    timers.current = [SOON, LATER].map((wait) => window.setTimeout(load, wait));
  }, [load]);
  useEffect(() => {
    if (!reachable) return;
    load();
    const again = setInterval(() => document.visibilityState === "visible" && load(), LOOK_AGAIN * 1000);
    return () => clearInterval(again);
  }, [load, reachable]);
  return { threads, reload };
}
