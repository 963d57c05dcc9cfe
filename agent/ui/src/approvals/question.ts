/** A question of the approval gate: LangChain's interrupt, as libs/middleware/approvals.py makes it. */
export interface Question {
  action_requests: Request[];
  review_configs: { action_name: string; allowed_decisions: DecisionType[] }[];
  /** Why an earlier answer was not taken. */
  error?: string;
  /** `["call"]` where an approval holds for this call alone. */
  scopes?: Scope[];
}

/** One call that waits. */
export interface Request {
  name: string;
  args: Record<string, unknown>;
  /** The whole call as text, every character of it visible. */
  description: string;
  /** Binds a decision to this very call. */
  digest?: string;
}

export type DecisionType = "approve" | "reject" | "edit";

/** How far an approval goes: this call, or for the rest of the thread the same call, or every call of the tool. */
export type Scope = "call" | "command" | "tool";

export type Decision = { digest?: string } & (
  | { type: "approve"; scope: Scope }
  | { type: "reject"; message?: string }
  | { type: "edit"; edited_action: { name: string; args: Record<string, unknown> } }
);

export function offered(question: Question, request: Request): DecisionType[] {
  const config = question.review_configs.find((each) => each.action_name === request.name);
  return config?.allowed_decisions ?? ["approve", "reject"];
}

/** A decision, tied to the call that the person saw. */
export function bound<D extends Decision>(request: Request, decision: D): D {
  return request.digest ? { ...decision, digest: request.digest } : decision;
}

/** Whether a value that interrupted a run is such a question. */
export function isQuestion(value: unknown): value is Question {
  const { action_requests, review_configs } = (value ?? {}) as Partial<Question>;
  return Array.isArray(action_requests) && Array.isArray(review_configs);
}
