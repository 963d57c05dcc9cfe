import { useCallback, useEffect, useRef, useState } from "react";
import type { Pending } from "../approvals/Approvals";
import type { Decision } from "../approvals/question";
import { running, waitingIn } from "./atRest";
import { explained } from "./Problem";
import type { Conversation } from "./useConversation";
import type { usePending } from "./usePending";

type Answers = Record<string, { decisions: Decision[] }>;

/** Milliseconds between looks at whether the thread is at rest. */
const LOOK_AGAIN = 300;

const ELSEWHERE = "A question was answered elsewhere: in another tab, or at a terminal.";

/** Sends answers to questions. What is answered while the agent is at work is sent as soon as it has paused. */
export function useAnswers(
  stream: Conversation["stream"],
  thread: string | null,
  questions: ReturnType<typeof usePending>,
  busy: boolean,
) {
  const { pending, settled, reload } = questions;
  const [given, setGiven] = useState<Answers>({});
  const [sending, setSending] = useState(false);
  /** What became of an answer, where it did not become one. */
  const [note, setNote] = useState("");
  const [failed, setFailed] = useState<unknown>(null);
  const seen = useRef<readonly Pending[]>([]);
  const answered = useRef(new Set<string>());
  const answer = useCallback((answers: Answers) => {
    setNote("");
    setGiven((before) => ({ ...before, ...answers }));
  }, []);
  useEffect(() => {
    if (busy || sending || !thread) return;
    const ready = pending.filter(({ id }) => given[id]);
    if (ready.length === 0) return;
    const ids = ready.map(({ id }) => id);
    const send = async () => {
      try {
        // The server takes a second answer while the first one is at work: two tabs may have asked.
        while (await running(stream.client, thread)) await new Promise((go) => setTimeout(go, LOOK_AGAIN));
        const still = await waitingIn(stream.client, thread);
        if (!ids.every((id) => still.has(id))) throw new Error("It waits no longer.");
        await stream.respondAll(Object.fromEntries(ids.map((id) => [id, given[id]!])));
        for (const id of ids) answered.current.add(id);
      } catch (error) {
        setFailed(error);
        setNote(`Your answer was not taken. ${explained(error)}`);
        // One that does not wait any more says so below.
        await reload().catch(() => undefined);
      }
      setGiven((before) => Object.fromEntries(Object.entries(before).filter(([id]) => !ids.includes(id))));
      setSending(false);
    };
    setSending(true);
    void send();
  }, [stream, thread, pending, reload, given, busy, sending]);
  // What waited and does not any more, and was not answered here.
  useEffect(() => {
    if (busy || sending || !settled) return;
    const gone = seen.current.filter(({ id }) => !pending.some((each) => each.id === id));
    if (gone.some(({ id }) => !answered.current.has(id))) setNote(ELSEWHERE);
    for (const { id } of gone) answered.current.delete(id);
    seen.current = pending;
    const lost = Object.keys(given).filter((id) => !pending.some((each) => each.id === id));
    if (lost.length > 0) setGiven((before) => Object.fromEntries(Object.entries(before).filter(([id]) => !lost.includes(id))));
  }, [pending, settled, given, busy, sending]);
  const waiting = pending.filter(({ id }) => !given[id]);
  const forget = useCallback(() => setNote(""), []);
  return { waiting, answer, note, forget, failed, answering: sending || Object.keys(given).length > 0 };
}
