import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { Icon } from "./Icon";

interface ComposerProps {
  /** What may be sent: nothing while the agent is at work or waits for an answer. */
  state: "ready" | "running" | "waiting";
  onSend: (text: string) => void;
  onStop: () => void;
  /** Put into the field by a sample. */
  suggestion?: string;
}

const PLACEHOLDER = {
  ready: "Give the agent a task",
  running: "The agent is at work. Write here; it can be sent when it has ended.",
  waiting: "The agent waits for your answer above.",
} as const;

export function Composer({ state, onSend, onStop, suggestion }: ComposerProps) {
  const [text, setText] = useState("");
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
  const send = () => {
    if (state !== "ready" || !text.trim()) return;
    onSend(text.trim());
    setText("");
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
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
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKey}
      />
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
