import { useCallback, useEffect, useMemo, useState } from "react";
import { isQuestion, type Pending } from "../../approvals/question";
import type { Outputs } from "./outputs";
import { stateOf } from "./runs";
import type { Conversation } from "./useConversation";

/** Milliseconds between checks of the state for a question, and the number of checks. */
const LOOK_AGAIN = 500;
const LOOKS = 20;

const NONE: ReadonlySet<string> = new Set();

/**
 * The questions that wait in the thread's state, and the error of its last run.
 *
 * `settled` is false until the state has confirmed or denied every question of the stream. `reload` reads the state
 * again, and tells `outputs` which messages are in the thread. The stream reports an error only once, and it replays all events of the thread, also
 * questions that were answered long ago. So the page shows a question only after the state has confirmed it.
 */
export function usePending(stream: Conversation["stream"], thread: string | null, outputs: Outputs) {
  const [confirmed, setConfirmed] = useState(NONE);
  const [absent, setAbsent] = useState(NONE);
  const [failure, setFailure] = useState<string | null>(null);
  // When a person answers one question of a reply, the stream repeats the other questions with the same ids.
  const streamed = useMemo(() => {
    const latest = new Map<string, Pending>();
    for (const { id, value } of stream.interrupts) if (id && isQuestion(value)) latest.set(id, { id, question: value });
    return [...latest.values()];
  }, [stream.interrupts]);
  const unconfirmed = streamed.map(({ id }) => id).filter((id) => !confirmed.has(id)).join();
  const { client, isLoading } = stream;
  const reload = useCallback(async () => {
    if (!thread) return;
    const { waiting, failure, messages } = await stateOf(client, thread);
    outputs.settle(messages);
    setFailure(failure);
    setConfirmed((before) => new Set([...before].filter((id) => waiting.has(id))));
  }, [client, thread, outputs]);
  // A question may have been answered at a terminal or in another tab.
  useEffect(() => {
    setAbsent(NONE);
    setFailure(null);
    if (!isLoading) void reload().catch(() => undefined);
  }, [reload, isLoading]);
  useEffect(() => {
    if (!unconfirmed || !thread) return;
    const ids = unconfirmed.split(",");
    let timer = 0;
    let ended = false;
    const look = async (left: number) => {
      // The status is read first: if the thread was idle before the state was read, the state is complete.
      const idle = await client.threads.get(thread).then(({ status }) => status !== "busy", () => false);
      if (ended) return;
      const waiting = await stateOf(client, thread).then((state) => state.waiting, () => null);
      if (ended) return;
      const found = ids.filter((id) => waiting?.has(id));
      if (found.length > 0) setConfirmed((before) => new Set([...before, ...found]));
      else if (left > 0 && !(idle && waiting)) timer = window.setTimeout(() => void look(left - 1), LOOK_AGAIN);
      else setAbsent(new Set(ids));
    };
    void look(LOOKS);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [client, thread, unconfirmed, isLoading]);
  const pending = useMemo(() => streamed.filter(({ id }) => confirmed.has(id)), [streamed, confirmed]);
  return { pending, settled: streamed.every(({ id }) => confirmed.has(id) || absent.has(id)), reload, failure };
}
