import { useCallback, useEffect, useState } from "react";
import { agentOf, createThread, deleteThread, titled, type ThreadSummary } from "./api/threads";
import type { RequestFailed } from "./api/http";
import { addressOf, threadIn } from "./address";
import { Chat, type News } from "./chat/Chat";
import { FilePanel } from "./files/FilePanel";
import { Header } from "./Header";
import { ThreadList } from "./threads/ThreadList";
import { useThreads } from "./threads/useThreads";
import { harmless } from "./text/visible";
import { useServer } from "./useServer";

/** What is open: a thread, or a new chat, and its agent. `key` changes with each of them that is opened. */
interface Open {
  thread: string | null;
  agent: string | null;
  key: number;
}

/** Milliseconds until a chat is asked for again that could not be opened. */
const TRY_AGAIN = 2_000;

export function App() {
  const { config, problem, epoch } = useServer();
  const { threads, reload } = useThreads(config !== null && problem === null);
  const [open, setOpen] = useState<Open>(() => ({ thread: threadIn(location.pathname), agent: null, key: 0 }));
  const [panel, setPanel] = useState<"threads" | "files" | null>(null);
  const [filesShown, setFilesShown] = useState(false);
  const [news, setNews] = useState(0);
  const [latest, setLatest] = useState<News | null>(null);
  const [note, setNote] = useState("");
  const [tries, setTries] = useState(0);

  const show = useCallback((thread: string | null, agent: string | null) => {
    setOpen((before) => ({ thread, agent, key: before.key + 1 }));
    setLatest(null);
    setNote("");
    setPanel(null);
  }, []);
  const go = (thread: string | null, agent: string | null) => {
    history.pushState(null, "", addressOf(thread));
    show(thread, agent);
  };
  useEffect(() => {
    const back = () => show(threadIn(location.pathname), null);
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, [show]);

  // The chat goes on as it is: it only has a name now.
  const named = useCallback((thread: string, agent: string) => {
    history.replaceState(null, "", addressOf(thread));
    setOpen((before) => ({ ...before, thread, agent }));
  }, []);
  const onNews = useCallback(
    (told: News) => {
      setNews((count) => count + 1);
      setLatest(told);
      reload();
    },
    [reload],
  );

  const { thread, agent: chosen } = open;
  useEffect(() => {
    if (!thread || chosen || !config) return;
    let timer = 0;
    agentOf(thread).then(
      (agent) => {
        setNote("");
        setOpen((now) => (now.thread === thread ? { ...now, agent: agent ?? config.default_agent } : now));
      },
      (error: RequestFailed) => {
        // 422: no thread can have that name.
        if (error.status !== 404 && error.status !== 422) {
          setNote(`This chat could not be opened. ${error.message}`);
          timer = window.setTimeout(() => setTries((count) => count + 1), TRY_AGAIN);
          return;
        }
        history.replaceState(null, "", addressOf(null));
        show(null, null);
        setNote("That chat is not on the server, or not any more. This is a new one.");
      },
    );
    return () => clearTimeout(timer);
  }, [thread, chosen, config, show, tries]);
  useEffect(() => {
    const escape = (event: KeyboardEvent) => event.key === "Escape" && setPanel(null);
    addEventListener("keydown", escape);
    return () => removeEventListener("keydown", escape);
  }, []);

  const waits = latest?.status === "interrupted";
  useEffect(() => {
    document.title = `${waits ? "● Waits for you · " : ""}Code agent`;
  }, [waits]);

  if (!config) return <Start problem={problem} />;
  const agent = chosen ?? (thread ? null : config.default_agent);
  // The server's list is a moment behind.
  const listed = threads.map((each) =>
    each.thread_id === thread && latest?.first ? { ...each, title: titled(latest.first), status: latest.status } : each,
  );
  const title = latest?.first ? titled(latest.first) : listed.find((each) => each.thread_id === thread)?.title;
  const needThread = async () => {
    if (thread) return thread;
    const made = await createThread(agent ?? config.default_agent);
    named(made, agent ?? config.default_agent);
    return made;
  };
  const remove = async (gone: ThreadSummary) => {
    if (!confirm(`Delete the chat “${gone.title}” for good? The files of the workspace stay.`)) return;
    try {
      await deleteThread(gone.thread_id);
      if (gone.thread_id === thread) go(null, null);
    } catch (error) {
      setNote((error as Error).message);
    }
    reload();
  };
  return (
    <div className={`page ${panel ? `show-${panel}` : ""} ${filesShown ? "with-files" : ""}`}>
      <a className="skip" href="#message">
        Go to the message
      </a>
      <aside className="side" id="threads">
        <div className="brand">
          <img src="/app/icon.svg" alt="" width="26" height="26" />
          Code agent
        </div>
        <ThreadList
          threads={listed}
          current={thread}
          onOpen={(each) => go(each?.thread_id ?? null, each?.agent ?? null)}
          onDelete={(each) => void remove(each)}
        />
        <p className="installed">
          Model {harmless(config.model)}
          {config.owner && `, for ${harmless(config.owner)}`}
        </p>
      </aside>
      <main>
        <Header
          config={config}
          title={thread ? (title ?? "Chat") : "New chat"}
          agent={agent}
          fixed={thread !== null}
          filesShown={filesShown || panel === "files"}
          threadsShown={panel === "threads"}
          onAgent={(id) => setOpen((before) => ({ ...before, agent: id }))}
          onThreads={() => setPanel(panel === "threads" ? null : "threads")}
          onFiles={() => {
            setFilesShown(!filesShown);
            setPanel(filesShown ? null : "files");
          }}
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
            onThread={(id) => named(id, agent)}
            onNews={onNews}
          />
        )}
      </main>
      {filesShown && (
        <aside className="files" id="files" aria-label="Files">
          <FilePanel threadId={thread} onNeedThread={needThread} refreshKey={news} />
        </aside>
      )}
      {panel && <button type="button" className="veil" aria-label="Close" onClick={() => setPanel(null)} />}
    </div>
  );
}

function Start({ problem }: { problem: string | null }) {
  return (
    <main className="start">
      {problem ? (
        <div className="problem" role="alert">
          <p>{problem}</p>
        </div>
      ) : (
        <p className="note">Loading …</p>
      )}
    </main>
  );
}
