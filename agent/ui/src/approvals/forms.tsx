import { useState, type KeyboardEvent, type ReactNode } from "react";
import { visible } from "../text/visible";
import type { Request } from "./question";

interface FormProps<T> {
  onSubmit: (value: T) => void;
  onCancel: () => void;
}

/** A form to change the text arguments of a call before it runs. Other values stay as they are. */
export function EditForm({ request, onSubmit, onCancel }: FormProps<Request["args"]> & { request: Request }) {
  const [args, setArgs] = useState(request.args);
  return (
    <Form submit={<button className="primary">Run as changed</button>} onSubmit={() => onSubmit(args)} onCancel={onCancel}>
      {Object.entries(args).map(([name, value]) =>
        typeof value === "string" ? (
          <label key={name}>
            {visible(name)}
            <textarea
              className="code-field"
              rows={Math.min(14, value.split("\n").length + 1)}
              spellCheck={false}
              value={value}
              onChange={(event) => setArgs({ ...args, [name]: event.target.value })}
            />
          </label>
        ) : (
          <p key={name} className="note">
            {visible(name)}: {visible(JSON.stringify(value))}
          </p>
        ),
      )}
    </Form>
  );
}

/** A form for the reason of a rejection. Enter sends the form, Escape closes it. */
export function ReasonForm({ ran, onSubmit, onCancel }: FormProps<string> & { ran: boolean }) {
  const [message, setMessage] = useState("");
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") onCancel();
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    onSubmit(message.trim());
  };
  const submit = <button className="danger">{ran ? "Undo" : "Reject"}</button>;
  return (
    <Form submit={submit} onSubmit={() => onSubmit(message.trim())} onCancel={onCancel}>
      <label>
        {ran ? "Why?" : "Why not?"} The agent reads it and tries another way. <span className="note">You may leave it empty.</span>
        <textarea autoFocus rows={2} value={message} onChange={(event) => setMessage(event.target.value)} onKeyDown={onKey} />
      </label>
    </Form>
  );
}

/** A form with a button to send it, and one to go back. */
export function Form({ submit, onSubmit, onCancel, children }: FormProps<void> & { submit: ReactNode; children: ReactNode }) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
      <div className="answers bar">
        {submit}
        <button type="button" onClick={onCancel}>
          Back
        </button>
      </div>
    </form>
  );
}
