import { useState } from "react";
import { useChat } from "../chat/stream/ChatContext";
import { Alert } from "../components/Notice";
import { keepDraft } from "../text/drafts";
import { MoveDialog } from "./MoveDialog";
import { forkAt, refusalOf, turnOf, whenFree } from "./turnRoutes";

/** Below a message of the person: go back to before this message, or copy the chat from there. */
export function PersonActions({ thread, message }: { thread: string; message: string }) {
  const { busy, stop, onMoved, onFork } = useChat();
  const [open, setOpen] = useState(false);
  const [problem, setProblem] = useState("");
  const [words, setWords] = useState("");
  const [copying, setCopying] = useState(false);
  const fork = async () => {
    setProblem("");
    setCopying(true);
    try {
      const turn = await turnOf(thread, message);
      const copy = await whenFree(() => forkAt(thread, turn.number - 1));
      keepDraft(copy.thread_id, turn.words);
      onFork(copy.thread_id);
    } catch (error) {
      setProblem(refusalOf(error));
    }
    setCopying(false);
  };
  const find = async () => {
    const turn = await turnOf(thread, message);
    setWords(turn.words);
    return { to: turn.number - 1 };
  };
  return (
    <>
      <div className="person-actions bar">
        <button type="button" className="quiet" title="Go back to before this message, with the files" onClick={() => setOpen(true)}>
          Back to here
        </button>
        <button type="button" className="quiet" title="Copy the chat and its files as they were before this message" disabled={copying} onClick={() => void fork()}>
          Fork from here
        </button>
      </div>
      {problem && <Alert>{problem}</Alert>}
      {open && (
        <MoveDialog
          thread={thread}
          title="Go back to before this message"
          action="Go back"
          busy={busy}
          onStop={stop}
          find={find}
          onMoved={() => {
            keepDraft(thread, words);
            onMoved();
          }}
          onClose={() => setOpen(false)}
        >
          The chat and its files go back to the moment before this message. This message and all after it leave the chat. Its
          text goes into the message field, where you can change it and send it again. A question that waits for your approval is
          dropped. Until you send a message, you can undo this.
        </MoveDialog>
      )}
    </>
  );
}
