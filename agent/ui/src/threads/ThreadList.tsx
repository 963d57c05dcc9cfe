import { useState } from "react";
import type { ThreadSummary } from "../api/threads";
import { Icon, IconButton } from "../components/Icon";
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

/** All chats, the latest first, with a search in their titles. */
export function ThreadList({ threads, current, onOpen, onDelete }: ThreadListProps) {
  const [wanted, setWanted] = useState("");
  const groups = grouped(threads, wanted);
  return (
    <nav className="threads stack" aria-label="Chats">
      <button type="button" className="new" onClick={() => onOpen(null)}>
        <Icon name="plus" /> New chat
      </button>
      <label className="search bar box">
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
            <h2 className="note">{day}</h2>
            <ul>
              {those.map((thread) => (
                <li key={thread.thread_id} className={`bar ${thread.thread_id === current ? "current" : ""}`}>
                  <button
                    type="button"
                    className="choice grow"
                    aria-current={thread.thread_id === current ? "page" : undefined}
                    onClick={() => onOpen(thread)}
                  >
                    <span className="title cut">{harmless(thread.title)}</span>
                    {STATES[thread.status] && (
                      <span className={thread.status}>{STATES[thread.status]}</span>
                    )}
                  </button>
                  <IconButton
                    icon="trash"
                    className="quiet delete"
                    aria-label={`Delete the chat ${harmless(thread.title)}`}
                    title="Delete"
                    onClick={() => onDelete(thread)}
                  />
                </li>
              ))}
            </ul>
          </section>
        ))}
        {groups.length === 0 && <p className="note">{wanted ? "No title has these words." : "No chats yet."}</p>}
      </div>
    </nav>
  );
}

function grouped(threads: readonly ThreadSummary[], wanted: string): [string, ThreadSummary[]][] {
  const words = wanted.toLowerCase().split(/\s+/);
  const found = threads.filter(({ title }) => words.every((word) => title.toLowerCase().includes(word)));
  const now = new Date();
  return [...Map.groupBy(found, (thread) => dayOf(thread.updated_at, now))];
}
