import { useEffect, useRef, useState } from "react";
import { loadConfig, type PageConfig } from "./api/config";
import { RequestFailed } from "./api/http";

/** Milliseconds between looks at a server that answers, and at one that does not. */
const LOOK = 4_000;
const LOOK_FOR_IT = 1_000;

interface Server {
  config: PageConfig | null;
  /** Why there is no answer; null while the server answers. */
  problem: string | null;
  /** Counts the times that it came back. What it was asked before, it does not remember. */
  epoch: number;
}

/** The server: what it is, whether it answers, and when it has come back. */
export function useServer(): Server {
  const [config, setConfig] = useState<PageConfig | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [epoch, setEpoch] = useState(0);
  const away = useRef(false);
  useEffect(() => {
    let timer = 0;
    let ended = false;
    const look = async () => {
      try {
        const told = await loadConfig();
        setConfig((before) => (JSON.stringify(before) === JSON.stringify(told) ? before : told));
        setProblem(null);
        if (away.current) setEpoch((count) => count + 1);
        away.current = false;
      } catch (error) {
        const gone = error instanceof RequestFailed && (error.status === 0 || error.status >= 500);
        away.current ||= gone;
        setProblem((error as Error).message);
      }
      if (!ended) timer = window.setTimeout(look, away.current ? LOOK_FOR_IT : LOOK);
    };
    void look();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, []);
  return { config, problem, epoch };
}
