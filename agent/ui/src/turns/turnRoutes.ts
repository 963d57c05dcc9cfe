import { ask, RequestFailed, send } from "../api/http";

/** Paths of files, by what happened to them. */
export interface Changes {
  created: string[];
  changed: string[];
  deleted: string[];
}

/** What a turn changed. */
export interface TurnChanges extends Changes {
  /** Paths that the snapshot of the turn leaves out, each with the reason. */
  not_kept: Record<string, string>;
}

export interface Turn {
  /** 0 is the begin of the thread. */
  number: number;
  /** The person's words. */
  words: string;
  /** The ids of the messages with these words. */
  messages: string[];
  /** What the turn changed; null if a snapshot is missing. */
  files: TurnChanges | null;
}

export interface Turns {
  turns: Turn[];
  /** Whether the thread has gone back and can return. */
  undo: boolean;
  /** Whether the thread can go back. The threads of the one-tool agent cannot. */
  goes_back: boolean;
}

/** What going back changes. `created` are files that come back. */
export interface Move extends Changes {
  /** Paths that stay as they are, each with the reason. */
  kept: Record<string, string>;
  /** Why an earlier snapshot is used; null if the snapshot is the right one. */
  note: string | null;
}

/** To the end of a turn, or to where the thread was before it went back. */
export type Way = { to: number } | { undo: true };

const pathOf = (thread: string, action: string) => `/page/threads/${encodeURIComponent(thread)}/${action}`;

export const listTurns = (thread: string): Promise<Turns> => ask(pathOf(thread, "turns"));

/** Go back. `dry` changes nothing and returns what would change. */
export const goBack = (thread: string, way: Way, dry: boolean): Promise<Move> =>
  send("POST", pathOf(thread, "rewind"), { ...way, dry_run: dry });

/** Copy a thread as it was at the end of a turn, with its files. */
export const forkAt = (thread: string, at: number): Promise<{ thread_id: string }> =>
  send("POST", pathOf(thread, "fork"), { at });

/** Find the turn of a message. Throws if the message is in no turn. */
export async function turnOf(thread: string, message: string): Promise<Turn> {
  const { turns } = await listTurns(thread);
  const found = turns.find(({ messages }) => messages.includes(message));
  if (!found) throw new Error("This message is not in the chat any more. Load the page again.");
  return found;
}

/** Milliseconds between tries, and their number. A run keeps its thread for a moment after its last message. */
const AGAIN = 500;
const TRIES = 4;

/** Send a request that the server refuses while a run is active. Tries again for two seconds. */
export async function whenFree<T>(send: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await send();
    } catch (error) {
      if (!isAtWork(error) || tries === TRIES) throw error;
      await new Promise((go) => setTimeout(go, AGAIN));
    }
  }
}

const isAtWork = (error: unknown): boolean => error instanceof RequestFailed && error.status === 409;

/** The reason of a failed request, with how to stop a run that prevents it. */
export function refusalOf(error: unknown): string {
  const { message } = error as Error;
  return isAtWork(error) ? `${message} To stop it, press “Stop the agent” beside the message field, or end the program that runs it.` : message;
}
