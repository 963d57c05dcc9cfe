import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { written } from "../text/typing";
import { Icon } from "./Icon";

interface ComposerProps {
  /** What may be sent: nothing while the agent is at work or waits for an answer. */
  state: "ready" | "running" | "waiting";
  /** Sends; false where it cannot be sent yet. */
  onSend: (text: string) => Promise<boolean>;
  onStop: () => void;
  /** Put into the field by a sample. */
  suggestion?: string;
}

/** Milliseconds between tries to send what waits: a run's end is a moment behind its last words. */
const AGAIN = 500;

const PLACEHOLDER = {
  ready: "Give the agent a task",
  running: "The agent is at work. What you send now goes out when it has ended.",
  waiting: "The agent waits for your answer above.",
} as const;

export function Composer({ state, onSend, onStop, suggestion }: ComposerProps) {
  const [text, setText] = useState("");
  const [queued, setQueued] = useState(false);
  const [tries, setTries] = useState(0);
  const field = useRef<HTMLTextAreaElement>(null);
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
  const going = useRef(false);
  const send = async () => {
    if (!text.trim() || going.current) return;
    if (state !== "ready") {
      setQueued(true);
      return;
    }
    going.current = true;
    written();
    const sent = await onSend(text.trim()).catch(() => false);
    going.current = false;
    // What was written since stays.
    if (sent) setText((now) => (now.startsWith(text) ? now.slice(text.length) : now));
    setQueued(!sent);
    setTries((count) => count + 1);
  };
  // What was sent too early goes out when the agent has ended.
  const early = useRef(send);
  early.current = send;
  useEffect(() => {
    if (state !== "ready") return;
    if (queued) {
      const timer = setTimeout(() => void early.current(), tries > 0 ? AGAIN : 0);
      return () => clearTimeout(timer);
    }
    // The button that had the focus may be gone. On a phone, the keyboard would come up.
    if (document.activeElement === document.body && !matchMedia("(pointer: coarse)").matches) field.current?.focus();
  }, [state, queued, tries]);
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") setQueued(false);
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form
      className="composer"
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
        onChange={(event) => {
          setText(event.target.value);
          setQueued(false);
        }}
        onKeyDown={onKey}
      />
      {queued && (
        <span className="note queued" role="status">
          Goes out when the agent has ended
        </span>
      )}
      {state === "running" ? (
        <button type="button" className="round stop" onClick={onStop} aria-label="Stop the agent" title="Stop the agent">
          <Icon name="stop" />
        </button>
      ) : (
        <button
          type="submit"
          className="round"
          disabled={state !== "ready" || !text.trim()}
          aria-label="Send"
          title="Send (Enter)"
        >
          <Icon name="send" />
        </button>
      )}
    </form>
  );
}
