import { useRef, useState } from "react";
import { useChat } from "../chat/stream/ChatContext";
import { Icon } from "../components/Icon";
import { visible } from "../text/visible";
import { CallShown, canHaveRules, headingOf, nounOf } from "./CallShown";
import { EffectShown } from "./EffectShown";
import { EditForm, ReasonForm } from "./forms";
import { Menu } from "./Menu";
import { RuleForm } from "./RuleForm";
import { withDigest, type Decision, type Request, type Scope } from "./question";

interface RequestCardProps {
  request: Request;
  editable: boolean;
  /** True if an approval cannot cover later calls. */
  once: boolean;
  /** Such as "2 of 3"; empty if only one call waits. */
  position: string;
  decision: Decision | undefined;
  /** Whether the keys decide this call. */
  next: boolean;
  onDecide: (decision: Decision | undefined) => void;
}

/** One call that waits for a person, with the possible decisions. */
export function RequestCard({ request, editable, once, position, decision, next, onDecide }: RequestCardProps) {
  const [form, setForm] = useState<"reason" | "edit" | "rule" | null>(null);
  const reject = useRef<HTMLButtonElement>(null);
  const { question, path } = headingOf(request);
  const decide = (made: Decision) => {
    setForm(null);
    onDecide(withDigest(request, made));
  };
  const approve = (scope: Scope) => decide({ type: "approve", scope });
  const { thread, writesRules } = useChat();
  const { digest = "" } = request;
  const ran = request.effect !== undefined;
  const approves = ran ? "Keep it, and approve" : "Approve";
  const lasting = [
    {
      name: `${approves} this exact call for this chat`,
      about: "From now on, exactly the same call runs without a question.",
      onChoose: () => approve("command"),
    },
    {
      name: `${approves} every ${nounOf(request.name)} for this chat`,
      about: "From now on, you do not see these calls before they run.",
      onChoose: () => approve("tool"),
    },
  ];
  const always = {
    name: "Always allow, by a rule …",
    about: "You choose the rule, and see its text before it is written.",
    onChoose: () => setForm("rule"),
  };
  const choices = [...(once ? [] : lasting), ...(writesRules && digest && canHaveRules(request.name) ? [always] : [])];
  const edited = decision?.type === "edit" ? decision.edited_action.args : null;
  // The description is the text of the call as the agent wrote it.
  const shown = edited ? { ...request, args: edited, description: visible(JSON.stringify(edited, null, 2)) } : request;
  const back = () => {
    setForm(null);
    // The button exists only after the next render.
    requestAnimationFrame(() => reject.current?.focus());
  };
  return (
    <article
      className={`card request ${decision ? "decided" : ""}`}
      data-next={next || undefined}
      tabIndex={-1}
      aria-label={`Approval${position && `, ${position}`}: ${question} ${path}`}
    >
      <header className="bar">
        <Icon name="shield" />
        <h3 className="grow">
          {question} {path && <code>{path}</code>}
        </h3>
        {position && <span className="pill">{position}</span>}
      </header>
      {form === "edit" ? (
        <EditForm
          request={request}
          onCancel={back}
          onSubmit={(args) => decide({ type: "edit", edited_action: { name: request.name, args } })}
        />
      ) : request.effect ? (
        <EffectShown request={request} effect={request.effect} />
      ) : (
        <CallShown request={shown} />
      )}
      {decision && (
        <p className="verdict bar">
          {verdictOf(decision, ran)}
          <button type="button" className="quiet" onClick={() => onDecide(undefined)}>
            Change
          </button>
        </p>
      )}
      {!decision && form === "reason" && (
        <ReasonForm ran={ran} onCancel={back} onSubmit={(message) => decide(message ? { type: "reject", message } : { type: "reject" })} />
      )}
      {!decision && form === "rule" && thread && (
        <RuleForm thread={thread} digest={digest} onWritten={() => approve("call")} onCancel={back} />
      )}
      {!decision && form === null && (
        <div className="answers bar">
          <div className={choices.length > 0 ? "split" : ""}>
            <button type="button" className="primary" data-answer="approve" onClick={() => approve("call")}>
              {ran ? "Keep" : "Approve"} {next && <kbd>a</kbd>}
            </button>
            {choices.length > 0 && (
              <Menu label={once ? "Always allow" : "Approve for the rest of this chat, or always"} choices={choices} />
            )}
          </div>
          <button ref={reject} type="button" data-answer="reject" onClick={() => setForm("reason")}>
            {ran ? "Undo" : "Reject"} {next && <kbd>r</kbd>}
          </button>
          {editable && (
            <button type="button" onClick={() => setForm("edit")}>
              Edit
            </button>
          )}
        </div>
      )}
    </article>
  );
}

const APPROVED: Record<Scope, string> = {
  call: "Approved",
  command: "Approved for this chat",
  tool: "Every such call approved for this chat",
};

function verdictOf(decision: Decision, ran: boolean): string {
  const rejected = ran ? "Undone" : "Rejected";
  if (decision.type === "reject") return decision.message ? `${rejected}: ${decision.message}` : rejected;
  if (ran && decision.type === "approve" && decision.scope === "call") return "Kept";
  return decision.type === "edit" ? "Runs as you have changed it" : APPROVED[decision.scope];
}
