import { useEffect, useState } from "react";
import type { Conversation } from "./useConversation";

/** Why the last run of a thread ended with an error, as its state has it: the stream tells of it only once. */
export function useFailure(stream: Conversation["stream"], thread: string | null): string | null {
  const [failure, setFailure] = useState<string | null>(null);
  const { client, isLoading } = stream;
  useEffect(() => {
    setFailure(null);
    if (isLoading || !thread) return;
    let ended = false;
    void client.threads.getState(thread).then(
      (state) => {
        const error = state.tasks.map((task) => task.error).find(Boolean);
        if (!ended && error) setFailure(String(error));
      },
      () => undefined,
    );
    return () => {
      ended = true;
    };
  }, [client, thread, isLoading]);
  return failure;
}
