import { useCallback, useEffect, useRef, useState } from "react";
import type { Decision, Pending } from "../../approvals/question";
import { activeRuns, stateOf } from "./runs";
import { explained } from "../Problem";
import type { Conversation } from "./useConversation";
import type { usePending } from "./usePending";

type Answers = Record<string, { decisions: Decision[] }>;

/** Milliseconds between checks whether a run is still active. */
const LOOK_AGAIN = 300;

const ELSEWHERE = "A question was answered elsewhere: in another tab, or at a terminal.";

/** Sends answers to questions. An answer given while a run is active is sent when the run has paused. */
export function useAnswers(
  stream: Conversation["stream"],
  thread: string | null,
  questions: ReturnType<typeof usePending>,
  busy: boolean,
) {
  const { pending, settled, reload } = questions;
  const [given, setGiven] = useState<Answers>({});
  const [sending, setSending] = useState(false);
  /** Why an answer was not accepted. */
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
        // Two tabs may show the same question. The server would take a second answer while the run of the first is active.
        while ((await activeRuns(stream.client, thread)).length > 0) await new Promise((go) => setTimeout(go, LOOK_AGAIN));
        const { waiting } = await stateOf(stream.client, thread);
        if (!ids.every((id) => waiting.has(id))) throw new Error("The question no longer waits.");
        await stream.respondAll(Object.fromEntries(ids.map((id) => [id, given[id]!])));
        for (const id of ids) answered.current.add(id);
      } catch (error) {
        setFailed(error);
        setNote(`Your answer was not taken. ${explained(error)}`);
        // The effect below shows a note if the question no longer waits.
        await reload().catch(() => undefined);
      }
      setGiven((before) => without(before, ids));
      setSending(false);
    };
    setSending(true);
    void send();
  }, [stream, thread, pending, reload, given, busy, sending]);
  // Finds questions that no longer wait and were not answered in this tab.
  useEffect(() => {
    if (busy || sending || !settled) return;
    const gone = seen.current.filter(({ id }) => !pending.some((each) => each.id === id));
    if (gone.some(({ id }) => !answered.current.has(id))) setNote(ELSEWHERE);
    for (const { id } of gone) answered.current.delete(id);
    seen.current = pending;
    const lost = Object.keys(given).filter((id) => !pending.some((each) => each.id === id));
    if (lost.length > 0) setGiven((before) => without(before, lost));
  }, [pending, settled, given, busy, sending]);
  const waiting = pending.filter(({ id }) => !given[id]);
  return { waiting, answer, note, clearNote: () => setNote(""), failed, answering: sending || Object.keys(given).length > 0 };
}

function without(answers: Answers, ids: readonly string[]): Answers {
  return Object.fromEntries(Object.entries(answers).filter(([id]) => !ids.includes(id)));
}
