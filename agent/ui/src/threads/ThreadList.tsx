import { useMemo, useState } from "react";
import type { ThreadSummary } from "../api/threads";
import { Icon } from "../chat/Icon";
import { dayOf } from "../text/time";
import { harmless } from "../text/visible";

interface ThreadListProps {
  threads: readonly ThreadSummary[];
  current: string | null;
  onOpen: (thread: ThreadSummary | null) => void;
  onDelete: (thread: ThreadSummary) => void;
}

const STATES: Partial<Record<ThreadSummary["status"], string>> = {
  busy: "at work",
  interrupted: "waits for you",
  error: "ended with an error",
};

/** The chats there are, the latest first, and a search through what they begin with. */
export function ThreadList({ threads, current, onOpen, onDelete }: ThreadListProps) {
  const [wanted, setWanted] = useState("");
  const groups = useMemo(() => grouped(threads, wanted), [threads, wanted]);
  return (
    <nav className="threads" aria-label="Chats">
      <button type="button" className="new" onClick={() => onOpen(null)}>
        <Icon name="plus" /> New chat
      </button>
      <label className="search">
        <Icon name="search" />
        <input
          type="search"
          id="search"
          placeholder="Search chats"
          aria-label="Search chats"
          value={wanted}
          onChange={(event) => setWanted(event.target.value)}
        />
      </label>
      <div className="thread-groups">
        {groups.map(([day, those]) => (
          <section key={day} aria-label={day}>
            <h2>{day}</h2>
            <ul>
              {those.map((thread) => (
                <li key={thread.thread_id} className={thread.thread_id === current ? "current" : ""}>
                  <button
                    type="button"
                    className="open"
                    aria-current={thread.thread_id === current ? "page" : undefined}
                    onClick={() => onOpen(thread)}
                  >
                    <span className="title">{harmless(thread.title)}</span>
                    {STATES[thread.status] && (
                      <span className={`state ${thread.status}`}>{STATES[thread.status]}</span>
                    )}
                  </button>
                  <button
                    type="button"
                    className="quiet delete"
                    aria-label={`Delete the chat ${harmless(thread.title)}`}
                    title="Delete"
                    onClick={() => onDelete(thread)}
                  >
                    <Icon name="trash" />
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ))}
        {groups.length === 0 && <p className="note">{wanted ? "No chat has these words." : "No chats yet."}</p>}
      </div>
    </nav>
  );
}

function grouped(threads: readonly ThreadSummary[], wanted: string): [string, ThreadSummary[]][] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const now = new Date();
  const groups = new Map<string, ThreadSummary[]>();
  for (const thread of threads) {
    const title = thread.title.toLowerCase();
    if (!words.every((word) => title.includes(word))) continue;
    const day = dayOf(thread.updated_at, now);
    groups.set(day, [...(groups.get(day) ?? []), thread]);
  }
  return [...groups];
}
