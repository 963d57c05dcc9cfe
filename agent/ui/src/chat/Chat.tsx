import { useEffect, useEffectEvent, useMemo, useState } from "react";
import { lacksTools, type PageConfig } from "../api/config";
import type { ThreadSummary } from "../api/threads";
import { Approvals } from "../approvals/Approvals";
import { Grants } from "../approvals/Grants";
import { Alert } from "../components/Notice";
import { Listings } from "../files/listings";
import { harmless } from "../text/visible";
import { Undo } from "../turns/Undo";
import { useTurns } from "../turns/useTurns";
import { Composer } from "./Composer";
import { Empty } from "./Empty";
import { Items } from "./messages/Items";
import { Plan } from "./Plan";
import { Problem } from "./Problem";
import { ChatContext } from "./stream/ChatContext";
import { itemsOf } from "./stream/itemsOf";
import { sendMessage, stopRuns, takesMessage } from "./stream/runs";
import { useAnswers } from "./stream/useAnswers";
import { useBusy } from "./stream/useBusy";
import { useConversation } from "./stream/useConversation";
import { usePending } from "./stream/usePending";
import { useScrollToEnd } from "./useScrollToEnd";

/** The state of the open chat. The server's list of threads shows it later. */
export interface ChatStatus {
  /** The first message. */
  first: string | undefined;
  status: ThreadSummary["status"];
}

interface ChatProps {
  config: PageConfig;
  agent: string;
  thread: string | null;
  /** Whether the server does not answer. */
  away: boolean;
  onThread: (id: string) => void;
  /** Called when files, threads or their states may have changed. */
  onStatus: (status: ChatStatus) => void;
  /** Called when the thread has gone back: the chat must be loaded again. */
  onMoved: () => void;
  /** Called with a copy of the thread. */
  onFork: (id: string) => void;
}

const MADE = /^(\.?\/)?(workspace\/(?!data\/)|results\/|scripts\/|tmp\/)/;

/** One chat: its messages and calls, its open questions, and the message field. */
export function Chat({ config, agent, thread, away, onThread, onStatus, onMoved, onFork }: ChatProps) {
  const { stream, outputs } = useConversation(agent, thread, onThread);
  const [suggestion, setSuggestion] = useState("");
  const questions = usePending(stream, thread, outputs);
  const [stopping, setStopping] = useState(false);
  const busy = useBusy(stream, thread) || stopping;
  const messages = stream.messages.filter(({ id }) => !id || !outputs.isLost(id));
  const shown = messages.map(({ id }) => id).join();
  const items = useMemo(() => itemsOf(messages), [stream.messages, shown]);
  const { waiting, answer, note, clearNote, failed, answering } = useAnswers(stream, thread, questions, busy);
  const error = (stream.error === failed ? null : stream.error) ?? questions.failure;
  const asked = waiting.length > 0;
  const state = asked ? "waiting" : busy || answering || !questions.settled ? "running" : "ready";
  const { box, follow } = useScrollToEnd(items.length + waiting.length, items.length > 0);
  // Files may have changed after each message and at the end of a run: each time, the folders are listed again.
  const listings = useMemo(() => (thread ? new Listings(thread) : null), [thread, items.length, busy]);
  const first = items.find((item) => item.kind === "person");
  const report = useEffectEvent(() =>
    onStatus({ first: first?.text, status: asked ? "interrupted" : busy ? "busy" : "idle" }),
  );
  useEffect(() => report(), [busy, stream.messages.length, waiting.length]);

  const send = async (text: string) => {
    if (!(await takesMessage(stream.client, thread))) return false;
    setSuggestion("");
    clearNote();
    follow();
    await sendMessage(stream, thread, text);
    return true;
  };
  const retry = async () => {
    if (await takesMessage(stream.client, thread)) await stream.submit(null);
  };
  const stop = () => {
    if (!thread) return;
    setStopping(true);
    void stopRuns(stream, thread).finally(() => setStopping(false));
  };
  const { turns, problem } = useTurns(thread, busy);
  const todos = stream.values.todos ?? [];
  // The agent itself creates files in some folders.
  const absent = (busy ? [] : (stream.values.absent_paths ?? [])).filter((path) => !MADE.test(path));
  return (
    <ChatContext value={{ stream, outputs, thread, listings, writesRules: config.writes_rules, busy, asked, away, turns, stop, onMoved, onFork }}>
      <div className="scroller" {...box} tabIndex={-1}>
        <div className="column stack" aria-busy={busy}>
          {items.length === 0 && !busy && !stream.isThreadLoading && error == null && (
            <Empty config={config} onSample={setSuggestion} />
          )}
          {stream.isThreadLoading && items.length === 0 && <p className="note">Loading this chat …</p>}
          <Items items={items} />
          {absent.map((path) => (
            <p className="note" key={path}>
              {harmless(path)} was not there when the run began.
            </p>
          ))}
          {note && <Alert>{note}</Alert>}
          {asked && (
            <Approvals
              pending={waiting}
              onAnswer={(answers) => {
                answer(answers);
                follow();
              }}
            />
          )}
          {busy && !asked && (
            <p className="note bar" role="status">
              <span className="spinner" aria-hidden="true" /> The agent is at work
            </p>
          )}
          {error != null && !busy && !asked && (
            <Problem error={error} unable={lacksTools(config, agent)} onRetry={thread ? () => void retry() : null} />
          )}
        </div>
      </div>
      <div className="dock">
        {problem && <Alert>{problem}</Alert>}
        {thread && turns.undo && !busy && <Undo thread={thread} />}
        {thread && <Grants thread={thread} refreshKey={busy} />}
        {todos.length > 0 && <Plan todos={todos} />}
        <Composer thread={thread} state={state} suggestion={suggestion} onSend={send} onStop={stop} />
      </div>
    </ChatContext>
  );
}
