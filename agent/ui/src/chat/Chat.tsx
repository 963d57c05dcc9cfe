import { useMemo, useState } from "react";
import type { PageConfig } from "../api/config";
import type { ThreadSummary } from "../api/threads";
import { Approvals } from "../approvals/Approvals";
import { Grants } from "../approvals/Grants";
import { atRest } from "./atRest";
import { Composer } from "./Composer";
import { itemsOf } from "./conversation";
import { Empty } from "./Empty";
import { Items } from "./Items";
import { Plan } from "./Plan";
import { Problem } from "./Problem";
import { stopRuns } from "./stopRuns";
import { useAnswers } from "./useAnswers";
import { useConversation } from "./useConversation";
import { useEnd } from "./useEnd";
import { useBusy } from "./useBusy";
import { useFailure } from "./useFailure";
import { useNews } from "./useNews";
import { usePending } from "./usePending";

/** What is known of the chat before the server's list knows it. */
export interface News {
  /** What it began with. */
  first: string | undefined;
  status: ThreadSummary["status"];
}

interface ChatProps {
  config: PageConfig;
  agent: string;
  thread: string | null;
  onThread: (id: string) => void;
  /** Something has happened: files, threads and their states may be others. */
  onNews: (news: News) => void;
}

/** A chat: what was said and done, what waits, and where to write. */
export function Chat({ config, agent, thread, onThread, onNews }: ChatProps) {
  const { stream, outputs } = useConversation(agent, thread, onThread);
  const [suggestion, setSuggestion] = useState("");
  const items = useMemo(() => itemsOf(stream.messages), [stream.messages]);
  const current = thread ?? stream.threadId;
  const questions = usePending(stream, current);
  const [stopping, setStopping] = useState(false);
  const busy = useBusy(stream, current) || stopping;
  const { waiting, answer, note, forget, failed, answering } = useAnswers(stream, current, questions, busy);
  const failure = useFailure(stream, current);
  const error = (stream.error === failed ? null : stream.error) ?? failure;
  const state = waiting.length > 0 ? "waiting" : busy || answering || !questions.settled ? "running" : "ready";
  const end = useEnd(items.length + waiting.length);
  const first = items.find((item) => item.kind === "person");
  useNews(`${busy} ${stream.messages.length} ${waiting.length}`, () =>
    onNews({ first: first?.text, status: waiting.length > 0 ? "interrupted" : busy ? "busy" : "idle" }),
  );

  const say = async (text: string) => {
    if (!(await atRest(stream.client, current))) return false;
    setSuggestion("");
    forget();
    void stream.submit({ messages: [{ type: "human", content: text }] } as never);
    return true;
  };
  const retry = async () => {
    if (await atRest(stream.client, current)) await stream.submit(null);
  };
  const stop = () => {
    if (!current) return;
    setStopping(true);
    void stopRuns(stream, current).finally(() => setStopping(false));
  };
  const todos = stream.values.todos ?? [];
  return (
    <>
      <div className="scroller" ref={end.scroller} tabIndex={-1}>
        <div className="column" aria-busy={busy}>
          {items.length === 0 && !busy && !stream.isThreadLoading && error == null && (
            <Empty config={config} onSample={setSuggestion} />
          )}
          {stream.isThreadLoading && items.length === 0 && <p className="note">Loading this chat …</p>}
          <Items
            items={items}
            stream={stream}
            outputs={outputs}
            busy={busy}
            asked={waiting.length > 0}
            thread={current}
            granted={stream.values.granted_calls ?? {}}
          />
          {note && (
            <p className="problem" role="alert">
              {note}
            </p>
          )}
          {waiting.length > 0 && <Approvals pending={waiting} onAnswer={answer} />}
          {busy && waiting.length === 0 && (
            <p className="working" role="status">
              <span className="spinner" aria-hidden="true" /> The agent is at work
            </p>
          )}
          {error != null && !busy && waiting.length === 0 && (
            <Problem error={error} onRetry={current ? () => void retry() : null} />
          )}
          <div ref={end.end} />
        </div>
      </div>
      <div className="dock">
        {current && <Grants thread={current} news={busy} />}
        {todos.length > 0 && <Plan todos={todos} />}
        <Composer state={state} suggestion={suggestion} onSend={say} onStop={stop} />
      </div>
    </>
  );
}
