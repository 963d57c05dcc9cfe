import { useState } from "react";
import { useChat } from "../chat/stream/ChatContext";
import { draftOf, keepDraft } from "../text/drafts";
import { MoveDialog } from "./MoveDialog";
import { listTurns } from "./turnRoutes";

/** Shown after a thread has gone back, until its next turn begins. */
export function Undo({ thread }: { thread: string }) {
  const { busy, stop, onMoved } = useChat();
  const [open, setOpen] = useState(false);
  const returned = async () => {
    // The message that went into the message field is in the chat again.
    const { turns } = await listTurns(thread).catch(() => ({ turns: [] }));
    if (turns.some(({ words }) => words === draftOf(thread))) keepDraft(thread, "");
    onMoved();
  };
  return (
    <div className="card undo bar">
      <p className="grow" role="status">
        This chat has gone back, with its files. You can undo that until you send a message.
      </p>
      <button type="button" onClick={() => setOpen(true)}>
        Undo
      </button>
      {open && (
        <MoveDialog
          thread={thread}
          title="Undo going back"
          action="Undo"
          busy={busy}
          onStop={stop}
          find={async () => ({ undo: true })}
          onMoved={() => void returned()}
          onClose={() => setOpen(false)}
        >
          The chat and its files return to where they were before the chat went back.
        </MoveDialog>
      )}
    </div>
  );
}
