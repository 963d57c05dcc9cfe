import { useCallback, useEffect, useMemo, useState } from "react";
import type { Pending } from "../approvals/Approvals";
import { isQuestion } from "../approvals/question";
import { waitingIn } from "./atRest";
import type { Conversation } from "./useConversation";

/** Milliseconds between looks at whether a question waits, and how often it is looked for. */
const LOOK_AGAIN = 500;
const LOOKS = 20;

interface Questions {
  /** The questions that wait. */
  pending: Pending[];
  /** Whether that is sure: false while the state has not said yet whether a question waits that the stream tells of. */
  settled: boolean;
  /** Look again which of them wait. */
  reload: () => Promise<void>;
}

const NONE: ReadonlySet<string> = new Set();

/**
 * The questions that wait, as the thread's state has them.
 *
 * The stream alone does not tell: it begins with what it had told before, and questions that were answered long ago
 * come again with it. So each question is looked for in the state before a person sees it.
 */
export function usePending(stream: Conversation["stream"], thread: string | null): Questions {
  const [known, setKnown] = useState(NONE);
  const [over, setOver] = useState(NONE);
  const told = useMemo(
    () => stream.interrupts.flatMap(({ id, value }): Pending[] => (id && isQuestion(value) ? [{ id, question: value }] : [])),
    [stream.interrupts],
  );
  const unknown = told.map(({ id }) => id).filter((id) => !known.has(id)).join();
  const { client, isLoading } = stream;
  const reload = useCallback(async () => {
    if (!thread) return;
    const waiting = await waitingIn(client, thread);
    setKnown((before) => new Set([...before].filter((id) => waiting.has(id))));
  }, [client, thread]);
  // Somebody else, at a terminal or in another tab, may have answered meanwhile.
  useEffect(() => {
    setOver(NONE);
    if (!isLoading) void reload().catch(() => undefined);
  }, [reload, isLoading]);
  useEffect(() => {
    if (!unknown || !thread) return;
    const ids = unknown.split(",");
    let timer = 0;
    let ended = false;
    const look = async (left: number) => {
      // In this order: of a thread that was at rest before, the state says all.
      const resting = await client.threads.get(thread).then(({ status }) => status !== "busy", () => false);
      const waiting = await waitingIn(client, thread).catch(() => null);
      if (ended) return;
      const found = ids.filter((id) => waiting?.has(id));
      if (found.length > 0) setKnown((before) => new Set([...before, ...found]));
      else if (left > 0 && !(resting && waiting)) timer = window.setTimeout(() => void look(left - 1), LOOK_AGAIN);
      else setOver(new Set(ids));
    };
    void look(LOOKS);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [client, thread, unknown, isLoading]);
  const pending = useMemo(() => told.filter(({ id }) => known.has(id)), [told, known]);
  return { pending, settled: told.every(({ id }) => known.has(id) || over.has(id)), reload };
}
