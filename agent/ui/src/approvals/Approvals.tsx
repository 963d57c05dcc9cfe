import { useEffect, useMemo, useRef, useState } from "react";
import { writing } from "../text/typing";
import { harmless } from "../text/visible";
import { offered, type Decision, type Question } from "./question";
import { RequestCard } from "./RequestCard";
import { useKeys } from "./useKeys";

/** A question that waits, with the id that its answer names. */
export interface Pending {
  id: string;
  question: Question;
}

interface ApprovalsProps {
  pending: readonly Pending[];
  /** Answers questions, each by its id, once all of their calls are decided. */
  onAnswer: (answers: Record<string, { decisions: Decision[] }>) => void;
}

/** All calls that wait for a person. An answer is sent when every call of its question is decided. */
export function Approvals({ pending, onAnswer }: ApprovalsProps) {
  const [decided, setDecided] = useState<Record<string, Decision | undefined>>({});
  const root = useRef<HTMLElement>(null);
  const calls = useMemo(
    () =>
      pending.flatMap(({ id, question }) =>
        question.action_requests.map((request, index) => ({ key: `${id}/${index}`, id, question, request })),
      ),
    [pending],
  );
  const open = calls.filter((call) => !decided[call.key]);
  const answer = (decisions: Record<string, Decision | undefined>) => {
    setDecided(decisions);
    const complete = pending.filter(({ id, question }) =>
      question.action_requests.every((_, index) => decisions[`${id}/${index}`]),
    );
    if (complete.length > 0) {
      onAnswer(
        Object.fromEntries(
          complete.map(({ id, question }) => [
            id,
            { decisions: question.action_requests.map((_, index) => decisions[`${id}/${index}`]!) },
          ]),
        ),
      );
    }
  };
  const approveAll = () =>
    answer({
      ...decided,
      ...Object.fromEntries(
        open.map(({ key, request }) => [
          key,
          { type: "approve", scope: "call", ...(request.digest ? { digest: request.digest } : {}) } as const,
        ]),
      ),
    });

  // A question that came back with an error has to be decided anew.
  const asked = pending.map(({ id, question }) => `${id}${question.error ?? ""}`).join();
  useEffect(() => setDecided({}), [asked]);
  useKeys(root, open[0]?.key);
  useTakenFocus(root, asked);

  return (
    <section ref={root} className="approvals" aria-label="Waiting for your approval">
      <p className="hidden" role="status">
        {open.length === 1 ? "The agent waits for your approval." : `${open.length} calls wait for your approval.`} Press a
        to approve, r to reject.
      </p>
      {pending.map(
        ({ id, question }) =>
          question.error && (
            <p key={id} className="problem" role="alert">
              That answer was not taken: {harmless(question.error)}
            </p>
          ),
      )}
      {calls.map((call, index) => (
        <RequestCard
          key={call.key}
          request={call.request}
          allowed={offered(call.question, call.request)}
          once={call.question.scopes?.join() === "call"}
          position={calls.length > 1 ? `${index + 1} of ${calls.length}` : ""}
          decision={decided[call.key]}
          next={call.key === open[0]?.key}
          onDecide={(decision) => answer({ ...decided, [call.key]: decision })}
        />
      ))}
      {open.length > 1 && (
        <div className="answers all">
          <button type="button" onClick={approveAll}>
            Approve all {open.length}
          </button>
        </div>
      )}
    </section>
  );
}

/** Milliseconds that somebody may think between two letters. */
const PAUSE = 4_000;

/** Goes to a new question, unless a person is writing. */
function useTakenFocus(root: React.RefObject<HTMLElement | null>, asked: string) {
  useEffect(() => {
    const active = document.activeElement;
    const field = active instanceof HTMLTextAreaElement;
    const inUse = field && (active.value !== "" || writing(PAUSE));
    const card = root.current?.querySelector<HTMLElement>("[data-next]");
    if (!inUse && card && (active === document.body || field)) {
      card.focus({ preventScroll: true });
    }
    card?.scrollIntoView({ block: "nearest" });
  }, [root, asked]);
}
