import { useEffect, useEffectEvent, useRef, useState, type KeyboardEvent } from "react";
import { draftOf, keepDraft } from "../text/drafts";
import { messageSent } from "../text/typing";
import { IconButton } from "../components/Icon";

interface ComposerProps {
  /** Null until a new chat has its thread. */
  thread: string | null;
  /** A message can be sent only if this is "ready". */
  state: "ready" | "running" | "waiting";
  /** Sends a message. False if the thread does not take it yet. */
  onSend: (text: string) => Promise<boolean>;
  onStop: () => void;
  /** A sample task that replaces the text of the field. */
  suggestion?: string;
}

/** Milliseconds between tries to send a queued message. A run ends shortly after its last message. */
const AGAIN = 500;

const PLACEHOLDER = {
  ready: "Give the agent a task",
  running: "The agent is at work. A message that you send now waits until the run has ended.",
  waiting: "The agent waits for your answer above.",
} as const;

/** The message field with its button to send or to stop. */
export function Composer({ thread, state, onSend, onStop, suggestion }: ComposerProps) {
  const [text, setText] = useState(() => draftOf(thread));
  const [queued, setQueued] = useState(false);
  const [tries, setTries] = useState(0);
  const field = useRef<HTMLTextAreaElement>(null);
  const draftKept = useRef(thread);
  useEffect(() => {
    // The text of a new chat goes along when the chat gets its thread.
    if (draftKept.current !== thread) keepDraft(draftKept.current, "");
    draftKept.current = thread;
    keepDraft(thread, text);
  }, [thread, text]);
  useEffect(() => {
    if (suggestion) {
      setText(suggestion);
      field.current?.focus();
    }
  }, [suggestion]);
  useEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight, 220)}px`;
  }, [text]);
  const sending = useRef(false);
  const send = async () => {
    if (!text.trim() || sending.current) return;
    if (state !== "ready") {
      setQueued(true);
      return;
    }
    sending.current = true;
    messageSent();
    const sent = await onSend(text.trim()).catch(() => false);
    sending.current = false;
    if (sent) keepDraft(thread, "");
    // Text that the person wrote during the request stays.
    if (sent) setText((now) => (now.startsWith(text) ? now.slice(text.length) : now));
    setQueued(!sent);
    setTries((count) => count + 1);
  };
  // A message that was sent during a run goes out when the run has ended.
  const sendQueued = useEffectEvent(send);
  useEffect(() => {
    if (state !== "ready") return;
    if (queued) {
      const timer = setTimeout(() => void sendQueued(), tries > 0 ? AGAIN : 0);
      return () => clearTimeout(timer);
    }
    // The button that had the focus may have disappeared. On a phone, focus would open the keyboard.
    if (document.activeElement === document.body && !matchMedia("(pointer: coarse)").matches) field.current?.focus();
  }, [state, queued, tries]);
  const takeBack = () => {
    setQueued(false);
    field.current?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape" && queued) takeBack();
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form
      className="composer bar"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        ref={field}
        id="message"
        rows={1}
        autoFocus
        value={text}
        aria-label="Message to the agent"
        placeholder={PLACEHOLDER[state]}
        readOnly={queued}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKey}
      />
      {queued && (
        <span className="note queued" role="status">
          Will be sent when the run has ended
          <button type="button" className="quiet" onClick={takeBack}>
            Take back
          </button>
        </span>
      )}
      {state === "running" ? (
        <IconButton icon="stop" className="round stop" aria-label="Stop the agent" title="Stop the agent" onClick={onStop} />
      ) : (
        <IconButton
          icon="send"
          type="submit"
          className="round"
          disabled={state !== "ready" || !text.trim()}
          aria-label="Send"
          title="Send (Enter)"
        />
      )}
    </form>
  );
}
