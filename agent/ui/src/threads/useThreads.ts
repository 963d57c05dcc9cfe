import { useCallback, useEffect, useRef, useState } from "react";
import { listThreads, type ThreadSummary } from "../api/threads";

/** Milliseconds between loads of the list: other programs create threads, too. */
const POLL = 15_000;

/** Milliseconds after an event at which the list is loaded: the server's list is slightly behind. */
const RELOADS = [600, 2_500];

/** The list of threads. `reload` loads it again. */
export function useThreads(reachable: boolean) {
  const [threads, setThreads] = useState<ThreadSummary[]>([]);
  const timers = useRef<number[]>([]);
  const load = useCallback(() => {
    listThreads().then(setThreads, () => undefined);
  }, []);
  const reload = useCallback(() => {
    timers.current.forEach(clearTimeout);
    timers.current = RELOADS.map((wait) => window.setTimeout(load, wait));
  }, [load]);
  useEffect(() => {
    if (!reachable) return;
    load();
    const again = setInterval(() => document.visibilityState === "visible" && load(), POLL);
    return () => clearInterval(again);
  }, [load, reachable]);
  return { threads, reload };
}
