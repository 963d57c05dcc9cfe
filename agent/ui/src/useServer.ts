import { useEffect, useRef, useState } from "react";
import { answers, loadConfig, type PageConfig } from "./api/config";
import { RequestFailed } from "./api/http";

/** Milliseconds between requests to a server that answers, and to one that does not. */
const POLL = 4_000;
const POLL_AWAY = 1_000;

interface Server {
  config: PageConfig | null;
  /** Why the server does not answer; null while it does. */
  problem: string | null;
  /** Number of times that the server came back. A restarted server does not know earlier streams. */
  epoch: number;
}

/** The server's configuration and whether the server answers. */
export function useServer(): Server {
  const [config, setConfig] = useState<PageConfig | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [epoch, setEpoch] = useState(0);
  const away = useRef(false);
  useEffect(() => {
    let timer = 0;
    let ended = false;
    // A server that has been away, or refused, may have another configuration now.
    let known = false;
    const poll = async () => {
      try {
        if (known) await answers();
        else setConfig(await loadConfig());
        known = true;
        setProblem(null);
        if (away.current) setEpoch((count) => count + 1);
        away.current = false;
      } catch (error) {
        known = false;
        away.current ||= error instanceof RequestFailed && (error.status === 0 || error.status >= 500);
        setProblem((error as Error).message);
      }
      if (!ended) timer = window.setTimeout(poll, away.current ? POLL_AWAY : POLL);
    };
    void poll();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, []);
  return { config, problem, epoch };
}
