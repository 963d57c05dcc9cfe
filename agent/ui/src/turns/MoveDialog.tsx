import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { Alert, Loading } from "../components/Notice";
import { MovePreview } from "./MovePreview";
import { goBack, refusalOf, whenFree, type Move, type Way } from "./turnRoutes";

interface MoveDialogProps {
  thread: string;
  title: string;
  /** What happens to the chat. */
  children: ReactNode;
  /** The name of the button that goes. */
  action: string;
  /** Whether a run is active: then a thread cannot go back. */
  busy: boolean;
  onStop: () => void;
  /** Finds where to go. */
  find: () => Promise<Way>;
  /** Called when the thread has gone. */
  onMoved: () => void;
  onClose: () => void;
}

/** Shows which files would come back, change, go and stay. A button then goes back. */
export function MoveDialog({ thread, title, children, action, busy, find, ...props }: MoveDialogProps) {
  const [found, setFound] = useState<{ way: Way; move: Move } | null>(null);
  const [problem, setProblem] = useState("");
  const [going, setGoing] = useState(false);
  const [tries, setTries] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const looked = useRef<Promise<unknown>>(Promise.resolve());
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    if (busy) return;
    let left = false;
    const look = async () => {
      if (left) return;
      const way = await find();
      const move = await whenFree(() => goBack(thread, way, true));
      if (!left) setFound({ way, move });
    };
    setFound(null);
    setProblem("");
    // The server refuses the second of two requests at once.
    looked.current = looked.current.then(look).catch((error: unknown) => !left && setProblem(refusalOf(error)));
    return () => {
      left = true;
    };
  }, [thread, busy, tries]);
  const go = async () => {
    if (!found || going) return;
    setGoing(true);
    try {
      await goBack(thread, found.way, false);
      props.onMoved();
    } catch (error) {
      setFound(null); // The files may have changed since.
      setProblem(refusalOf(error));
    }
    setGoing(false);
  };
  return (
    <dialog ref={dialog} className="move-dialog" tabIndex={-1} aria-labelledby={id} onClose={props.onClose}>
      <div className="stack">
        <h2 id={id}>{title}</h2>
        <p>{children}</p>
        {busy && (
          <Alert>
            <p>The agent is at work in this chat. Stop the agent, or wait until its run has ended.</p>
            <button type="button" onClick={props.onStop}>
              Stop the agent
            </button>
          </Alert>
        )}
        {!busy && problem && (
          <Alert>
            <p>{problem}</p>
            <button type="button" onClick={() => setTries(tries + 1)}>
              Try again
            </button>
          </Alert>
        )}
        {!busy && !problem && !found && <Loading />}
        {!busy && !problem && found && <MovePreview move={found.move} />}
        <div className="answers bar">
          <button type="button" className="primary" disabled={busy || problem !== "" || !found || going} onClick={() => void go()}>
            {action}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
        </div>
      </div>
    </dialog>
  );
}
