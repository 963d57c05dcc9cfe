import { useEffect, useRef, useState } from "react";
import { Icon } from "../chat/Icon";
import { CallShown, headingOf } from "./CallShown";
import { Edited } from "./Edited";
import { visible } from "../text/visible";
import { Menu, type Choice } from "./Menu";
import { bound, type Decision, type DecisionType, type Request, type Scope } from "./question";

interface RequestCardProps {
  request: Request;
  allowed: readonly DecisionType[];
  /** Whether an approval can hold for this call alone. */
  once: boolean;
  /** Which of how many, where there are several. */
  position: string;
  decision: Decision | undefined;
  /** The decision that the keys make next is this one's. */
  next: boolean;
  onDecide: (decision: Decision | undefined) => void;
}

/** One call that waits for a person: what it is, and what can be answered. */
export function RequestCard({ request, allowed, once, position, decision, next, onDecide }: RequestCardProps) {
  const [asking, setAsking] = useState<"reason" | "edit" | null>(null);
  const reject = useRef<HTMLButtonElement>(null);
  const { verb, what } = headingOf(request);
  const approve = (scope: Scope) => onDecide(bound(request, { type: "approve", scope }));
  const back = () => {
    setAsking(null);
    // The button comes back first.
    requestAnimationFrame(() => reject.current?.focus());
  };
  return (
    <article
      className={`card request ${decision ? "decided" : ""}`}
      data-next={next || undefined}
      tabIndex={-1}
      aria-label={`Approval${position && `, ${position}`}: ${verb} ${what}`}
    >
      <header>
        <Icon name="shield" />
        <h3>
          {verb} {what && <code>{what}</code>}
        </h3>
        {position && <span className="pill">{position}</span>}
      </header>
      {asking === "edit" ? (
        <Edited
          request={request}
          onCancel={back}
          onRun={(args) => {
            setAsking(null);
            onDecide(bound(request, { type: "edit", edited_action: { name: request.name, args } }));
          }}
        />
      ) : (
        <CallShown request={request} />
      )}
      {decision ? (
        <p className="verdict">
          {decidedWords(decision)}
          <button type="button" className="quiet" onClick={() => onDecide(undefined)}>
            Change
          </button>
        </p>
      ) : asking === "reason" ? (
        <Reason
          onCancel={back}
          onReject={(message) => {
            setAsking(null);
            onDecide(bound(request, message ? { type: "reject", message } : { type: "reject" }));
          }}
        />
      ) : (
        asking === null && (
          <div className="answers">
            <div className={once ? "" : "split"}>
              <button type="button" className="primary" data-answer="approve" onClick={() => approve("call")}>
                Approve {next && <kbd>a</kbd>}
              </button>
              {!once && <Menu label="Approve for the rest of this chat" choices={lasting(request, approve)} />}
            </div>
            <button ref={reject} type="button" data-answer="reject" onClick={() => setAsking("reason")}>
              Reject {next && <kbd>r</kbd>}
            </button>
            {allowed.includes("edit") && (
              <button type="button" onClick={() => setAsking("edit")}>
                Edit
              </button>
            )}
          </div>
        )
      )}
    </article>
  );
}

function lasting(request: Request, approve: (scope: Scope) => void): Choice[] {
  return [
    {
      name: "Approve this exact call for this chat",
      about: "The same call, to the last character, runs unasked from now on.",
      onChoose: () => approve("command"),
    },
    {
      name: `Approve every ${visible(request.name)} for this chat`,
      about: "Whatever it is: you will not see it before it runs.",
      onChoose: () => approve("tool"),
    },
  ];
}

function decidedWords(decision: Decision): string {
  if (decision.type === "reject") return decision.message ? `Rejected: ${decision.message}` : "Rejected";
  if (decision.type === "edit") return "Runs as you have changed it";
  return { call: "Approved", command: "Approved for this chat", tool: "Every such call approved for this chat" }[
    decision.scope
  ];
}

function Reason({ onCancel, onReject }: { onCancel: () => void; onReject: (message: string) => void }) {
  const [message, setMessage] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      className="reason"
      onSubmit={(event) => {
        event.preventDefault();
        onReject(message.trim());
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onCancel();
        if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
          event.preventDefault();
          onReject(message.trim());
        }
      }}
    >
      <label>
        Why not? The agent reads it and tries another way. <span className="note">You may leave it empty.</span>
        <textarea ref={field} rows={2} value={message} onChange={(event) => setMessage(event.target.value)} />
      </label>
      <div className="answers">
        <button type="submit" className="danger">
          Reject
        </button>
        <button type="button" onClick={onCancel}>
          Back
        </button>
      </div>
    </form>
  );
}
