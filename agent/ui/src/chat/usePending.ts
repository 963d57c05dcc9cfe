import { useEffect, useMemo, useState } from "react";
import type { Pending } from "../approvals/Approvals";
import { isQuestion } from "../approvals/question";
import type { Conversation } from "./useConversation";

/** Milliseconds between looks at whether a question waits, and how often it is looked for. */
const LOOK_AGAIN = 500;
const LOOKS = 20;

/**
 * The questions that wait, as the thread's state has them.
 *
 * The stream alone does not tell: it begins with what it had told before, and questions that were answered long ago
 * come again with it. So each question is looked for in the state before a person sees it.
 */
export function usePending(stream: Conversation["stream"], thread: string | null): Pending[] {
  const [known, setKnown] = useState<ReadonlySet<string>>(new Set());
  const told = useMemo(
    () => stream.interrupts.flatMap(({ id, value }): Pending[] => (id && isQuestion(value) ? [{ id, question: value }] : [])),
    [stream.interrupts],
  );
  const unknown = told.map(({ id }) => id).filter((id) => !known.has(id)).join();
  const { client, isLoading } = stream;
  // Somebody else, at a terminal or in another tab, may have answered meanwhile.
  useEffect(() => {
    if (isLoading || !thread) return;
    let ended = false;
    void client.threads.getState(thread).then(
      (state) => {
        const waiting = new Set(state.tasks.flatMap((task) => task.interrupts.map(({ id }) => id ?? "")));
        if (!ended) setKnown((before) => new Set([...before].filter((id) => waiting.has(id))));
      },
      () => undefined,
    );
    return () => {
      ended = true;
    };
  }, [client, thread, isLoading]);
  useEffect(() => {
    if (!unknown || !thread) return;
    let timer = 0;
    let ended = false;
    const look = async (left: number) => {
      const state = await client.threads.getState(thread).catch(() => null);
      if (ended) return;
      const waiting = (state?.tasks ?? []).flatMap((task) => task.interrupts.map(({ id }) => id ?? ""));
      const found = unknown.split(",").filter((id) => waiting.includes(id));
      if (found.length > 0) setKnown((before) => new Set([...before, ...found]));
      else if (left > 0) timer = window.setTimeout(() => void look(left - 1), LOOK_AGAIN);
    };
    void look(LOOKS);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [client, thread, unknown]);
  return useMemo(() => told.filter(({ id }) => known.has(id)), [told, known]);
}
