import { useEffect, useState } from "react";
import type { RequestFailed } from "../api/http";
import { listTurns, type Turns } from "./turnRoutes";

const NONE: Turns = { turns: [], undo: false, goes_back: false };

/** The turns of a thread, and why they could not be read. They are loaded again at the end of each run. */
export function useTurns(thread: string | null, busy: boolean): { turns: Turns; problem: string } {
  const [turns, setTurns] = useState(NONE);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!thread || busy) return;
    let left = false;
    listTurns(thread).then(
      (found) => {
        if (left) return;
        setTurns(found);
        setProblem("");
      },
      ({ status, message }: RequestFailed) => {
        // A thread without any run may not be on the server yet.
        if (!left && status !== 404) setProblem(`The turns of this chat could not be read. ${message}`);
      },
    );
    return () => {
      left = true;
    };
  }, [thread, busy]);
  return { turns, problem };
}
