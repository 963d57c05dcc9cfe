import { useEffect, useMemo, useRef, useState, type RefObject } from "react";
import { Alert } from "../components/Notice";
import { typedWithin } from "../text/typing";
import { harmless } from "../text/visible";
import { withDigest, type Decision, type Pending, type Question } from "./question";
import { RequestCard } from "./RequestCard";
import { useKeys } from "./useKeys";

interface ApprovalsProps {
  pending: readonly Pending[];
  /** Called with the answers of questions, by id, whose calls are all decided. */
  onAnswer: (answers: Record<string, { decisions: Decision[] }>) => void;
}

type Decisions = Record<string, Decision | undefined>;

/** All calls that wait for a person. A question is answered when every call in it is decided. */
export function Approvals({ pending, onAnswer }: ApprovalsProps) {
  const [decided, setDecided] = useState<Decisions>({});
  const root = useRef<HTMLElement>(null);
  const calls = useMemo(
    () =>
      pending.flatMap(({ id, question }) =>
        question.action_requests.map((request, index) => ({ key: `${id}/${index}`, question, request })),
      ),
    [pending],
  );
  const open = calls.filter((call) => !decided[call.key]);
  const decide = (decisions: Decisions) => {
    setDecided(decisions);
    const answers: Parameters<typeof onAnswer>[0] = {};
    for (const { id, question } of pending) {
      const made = question.action_requests.flatMap((_, index) => decisions[`${id}/${index}`] ?? []);
      if (made.length === question.action_requests.length) answers[id] = { decisions: made };
    }
    if (Object.keys(answers).length > 0) onAnswer(answers);
  };
  const approveAll = () => {
    const approved = open.map(({ key, request }) => [key, withDigest(request, { type: "approve", scope: "call" })]);
    decide({ ...decided, ...Object.fromEntries(approved) });
  };

  // A question that came back with an error needs new decisions.
  const asked = pending.map(({ id, question }) => `${id}${question.error ?? ""}`).join();
  useEffect(() => setDecided({}), [asked]);
  useKeys(root, open[0]?.key);
  useFocusOnQuestion(root, asked);

  return (
    <section ref={root} className="approvals stack" aria-label="Waiting for your approval">
      <p className="hidden" role="status">
        {open.length === 1 ? "The agent waits for your approval." : `${open.length} calls wait for your approval.`}{" "}
        {open[0]?.request.effect ? "Press a to keep what the call did, r to undo it." : "Press a to approve, r to reject."}
      </p>
      {pending.map(
        ({ id, question }) =>
          question.error && <Alert key={id}>That answer was not taken: {harmless(question.error)}</Alert>,
      )}
      {calls.map(({ key, question, request }, index) => (
        <RequestCard
          key={key}
          request={request}
          editable={editable(question, request.name)}
          once={question.scopes?.join() === "call"}
          position={calls.length > 1 ? `${index + 1} of ${calls.length}` : ""}
          decision={decided[key]}
          next={key === open[0]?.key}
          onDecide={(decision) => decide({ ...decided, [key]: decision })}
        />
      ))}
      {open.length > 1 && (
        <div className="answers bar">
          <button type="button" onClick={approveAll}>
            Approve all {open.length}
          </button>
        </div>
      )}
    </section>
  );
}

function editable({ review_configs: configs }: Question, tool: string): boolean {
  return configs.some((each) => each.action_name === tool && each.allowed_decisions.includes("edit"));
}

/** Milliseconds after a key press during which the person counts as typing. */
const PAUSE = 4_000;

/** Moves the focus to a new question, unless the person is typing. */
function useFocusOnQuestion(root: RefObject<HTMLElement | null>, asked: string) {
  useEffect(() => {
    const active = document.activeElement;
    const field = active instanceof HTMLTextAreaElement;
    const inUse = field && (active.value !== "" || typedWithin(PAUSE));
    const card = root.current?.querySelector<HTMLElement>("[data-next]");
    if (!inUse && (active === document.body || field)) card?.focus({ preventScroll: true });
    card?.scrollIntoView({ block: "nearest" });
  }, [root, asked]);
}
