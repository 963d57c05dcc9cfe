import { useCallback, useEffect, useState } from "react";
import type { Pending } from "../approvals/Approvals";
import type { Decision } from "../approvals/question";
import type { Conversation } from "./useConversation";

type Answers = Record<string, { decisions: Decision[] }>;

/** Sends answers to questions. What is answered while the agent is at work is sent as soon as it has paused. */
export function useAnswers(stream: Conversation["stream"], pending: readonly Pending[], busy: boolean) {
  const [given, setGiven] = useState<Answers>({});
  const answer = useCallback((answers: Answers) => setGiven((before) => ({ ...before, ...answers })), []);
  useEffect(() => {
    if (busy) return;
    const ready = pending.filter(({ id }) => given[id]);
    if (ready.length === 0) return;
    const answers = Object.fromEntries(ready.map(({ id }) => [id, given[id]!]));
    setGiven((before) => Object.fromEntries(Object.entries(before).filter(([id]) => !(id in answers))));
    void stream.respondAll(answers);
  }, [stream, pending, given, busy]);
  const waiting = pending.filter(({ id }) => !given[id]);
  return { waiting, answer };
}
