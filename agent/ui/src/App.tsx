import { useCallback, useEffect, useState } from "react";
import { createThread, deleteThread, findThread, titled, type ThreadSummary } from "./api/threads";
import { Chat, type ChatStatus } from "./chat/Chat";
import { Alert, Loading } from "./components/Notice";
import { FilePanel } from "./files/FilePanel";
import { Header } from "./Header";
import { ThreadList } from "./threads/ThreadList";
import { useThreads } from "./threads/useThreads";
import { keepDraft } from "./text/drafts";
import { harmless } from "./text/visible";
import { useServer } from "./useServer";

/**
 * The open chat and its agent. `thread` is null for a new chat; `key` changes when another chat is opened. Until the
 * first message, the agent is not `fixed`, also if an upload has created the thread.
 */
interface Open {
  thread: string | null;
  agent: string | null;
  fixed: boolean;
  key: number;
}

/** Milliseconds until another try to open a chat. */
const TRY_AGAIN = 2_000;

/** The thread in the page's address, whatever its form; null if there is none. */
const threadHere = () => /^\/app\/t\/(.+)$/.exec(location.pathname)?.[1] ?? null;

const addressOf = (thread: string | null) => (thread ? `/app/t/${thread}` : "/app");

export function App() {
  const { config, problem, epoch } = useServer();
  const { threads, reload } = useThreads(config !== null && problem === null);
  const [open, setOpen] = useState<Open>(() => ({ thread: threadHere(), agent: null, fixed: threadHere() !== null, key: 0 }));
  const [threadsShown, setThreadsShown] = useState(false);
  const [filesShown, setFilesShown] = useState(false);
  const [changes, setChanges] = useState(0);
  const [latest, setLatest] = useState<ChatStatus | null>(null);
  const [note, setNote] = useState("");
  const [tries, setTries] = useState(0);

  const show = useCallback((thread: string | null, agent: string | null) => {
    setOpen((before) => ({ thread, agent, fixed: thread !== null, key: before.key + 1 }));
    setLatest(null);
    setNote("");
    setThreadsShown(false);
  }, []);
  const go = (thread: string | null, agent: string | null) => {
    history.pushState(null, "", addressOf(thread));
    show(thread, agent);
  };
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    addEventListener("popstate", () => show(threadHere(), null), { signal });
    addEventListener("keydown", ({ key }) => key === "Escape" && setThreadsShown(false), { signal });
    return () => ended.abort();
  }, [show]);

  // A new chat gets its thread. `key` stays the same, so React keeps the chat.
  const setThread = useCallback((thread: string, agent: string, fixed: boolean) => {
    history.replaceState(null, "", addressOf(thread));
    setOpen((before) => ({ ...before, thread, agent, fixed }));
  }, []);
  const onStatus = useCallback(
    (status: ChatStatus) => {
      setChanges((count) => count + 1);
      setLatest(status);
      if (status.first !== undefined) setOpen((now) => (now.fixed ? now : { ...now, fixed: true }));
      reload();
    },
    [reload],
  );

  const { thread, agent: chosen } = open;
  useEffect(() => {
    if (!thread || chosen || !config) return;
    let timer = 0;
    findThread(thread).then(
      (found) => {
        if (found) {
          setNote("");
          setOpen((now) => (now.thread === thread ? { ...now, agent: found.agent ?? config.default_agent, fixed: found.agent !== null } : now));
          return;
        }
        history.replaceState(null, "", addressOf(null));
        show(null, null);
        setNote("That chat is not on the server. This is a new chat.");
      },
      (error: Error) => {
        setNote(`This chat could not be opened. ${error.message}`);
        timer = window.setTimeout(() => setTries((count) => count + 1), TRY_AGAIN);
      },
    );
    return () => clearTimeout(timer);
  }, [thread, chosen, config, show, tries]);
  const waiting = latest?.status === "interrupted";
  useEffect(() => {
    document.title = `${waiting ? "● Waits for you · " : ""}Code agent`;
  }, [waiting]);

  if (!config) return <main className="start">{problem ? <Alert>{problem}</Alert> : <Loading />}</main>;
  const agent = chosen ?? (thread ? null : config.default_agent);
  // The open chat knows its title and status before the server's list does.
  const listed = threads.map((each) =>
    each.thread_id === thread && latest?.first ? { ...each, title: titled(latest.first), status: latest.status } : each,
  );
  const title = latest?.first ? titled(latest.first) : listed.find((each) => each.thread_id === thread)?.title;
  const needThread = async () => {
    if (thread) return thread;
    const made = await createThread();
    setThread(made, agent ?? config.default_agent, false);
    return made;
  };
  const remove = async ({ thread_id: id, title }: ThreadSummary) => {
    if (!confirm(`Delete the chat “${title}” for good? The files of the workspace stay.`)) return;
    // An open chat would go on asking for its state.
    if (id === thread) go(null, null);
    try {
      await deleteThread(id);
      keepDraft(id, "");
    } catch (error) {
      setNote((error as Error).message);
    }
    reload();
  };
  return (
    <div className={`page ${threadsShown ? "show-threads" : ""}`}>
      <a className="skip hidden button" href="#message">
        Go to the message
      </a>
      <aside className="side stack" id="threads">
        <div className="brand bar">
          <img src="/app/icon.svg" alt="" width="26" height="26" />
          Code agent
          {config.owner && <span className="note cut">of {harmless(config.owner)}</span>}
        </div>
        <ThreadList
          threads={listed}
          current={thread}
          onOpen={(each) => go(each?.thread_id ?? null, each?.agent ?? null)}
          onDelete={(each) => void remove(each)}
        />
      </aside>
      <main>
        <Header
          config={config}
          title={thread ? (title ?? "Chat") : "New chat"}
          agent={agent}
          fixed={open.fixed}
          filesShown={filesShown}
          threadsShown={threadsShown}
          onAgent={(id) => setOpen((before) => ({ ...before, agent: id }))}
          onThreads={() => setThreadsShown(!threadsShown)}
          onFiles={() => setFilesShown(!filesShown)}
        />
        {(problem ?? note) && (
          <p className="banner" role="alert">
            {problem ?? note}
          </p>
        )}
        {agent && (
          <Chat
            key={`${open.key} ${epoch}`}
            config={config}
            agent={agent}
            thread={thread}
            away={problem !== null}
            onThread={(id) => setThread(id, agent, true)}
            onStatus={onStatus}
            onMoved={() => show(thread, agent)}
            onFork={(id) => {
              go(id, agent);
              reload();
            }}
          />
        )}
      </main>
      {filesShown && (
        <aside className="files" id="files" aria-label="Files">
          <FilePanel key={open.key} config={config} threadId={thread} onNeedThread={needThread} onClose={() => setFilesShown(false)} refreshKey={changes} />
        </aside>
      )}
      {(threadsShown || filesShown) && (
        <button
          type="button"
          className="veil"
          aria-label="Close"
          onClick={() => (threadsShown ? setThreadsShown(false) : setFilesShown(false))}
        />
      )}
    </div>
  );
}
