import { useCallback, useEffect, useRef, useState } from "react";
import { listThreads, type ThreadSummary } from "../api/threads";

/** Seconds between looks at the list: other programs begin chats, too. */
const LOOK_AGAIN = 15;

/** The list of threads. `reload` asks for it anew, at most once a second. */
export function useThreads(reachable: boolean) {
  const [threads, setThreads] = useState<ThreadSummary[]>([]);
  const timer = useRef(0);
  const load = useCallback(() => {
    listThreads().then(setThreads, () => undefined);
  }, []);
  const reload = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(load, 600);
  }, [load]);
  useEffect(() => {
    if (!reachable) return;
    load();
    const again = setInterval(() => document.visibilityState === "visible" && load(), LOOK_AGAIN * 1000);
    return () => clearInterval(again);
  }, [load, reachable]);
  return { threads, reload };
}
