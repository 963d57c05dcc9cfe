import { createContext, useContext } from "react";
import type { Listings } from "../../files/listings";
import type { Turns } from "../../turns/turnRoutes";
import type { Outputs } from "./outputs";
import type { Conversation } from "./useConversation";

interface ChatState {
  stream: Conversation["stream"];
  outputs: Outputs;
  /** Null until a new chat has its thread. */
  thread: string | null;
  /** The folders of the thread's workspace as of the latest message; null without a thread. */
  listings: Listings | null;
  /** Whether rules may be written here. */
  writesRules: boolean;
  /** Whether a run is active. */
  busy: boolean;
  /** Whether a question waits for a person. */
  asked: boolean;
  /** Whether the server does not answer. */
  away: boolean;
  turns: Turns;
  /** Stops the active run. */
  stop: () => void;
  /** Call when the thread has gone back: the chat is loaded again. */
  onMoved: () => void;
  /** Opens a copy of the thread. */
  onFork: (thread: string) => void;
}

export const ChatContext = createContext<ChatState | null>(null);

/** The state of the chat around a component. */
export function useChat(): ChatState {
  return useContext(ChatContext)!;
}
