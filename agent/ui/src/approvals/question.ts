/** A question of the approval gate: the interrupt that libs/middleware/approvals/approval_gate.py raises. */
export interface Question {
  action_requests: Request[];
  review_configs: { action_name: string; allowed_decisions: ("approve" | "reject" | "edit")[] }[];
  /** Why the server refused an earlier answer. */
  error?: string;
  /** `["call"]` if an approval cannot cover later calls. */
  scopes?: Scope[];
}

/** A question without an answer, with the id of its interrupt. */
export interface Pending {
  id: string;
  question: Question;
}

/** One call that waits for a decision. */
export interface Request {
  name: string;
  args: Record<string, unknown>;
  /** The whole call as text, with every character visible. */
  description: string;
  /** Identifies the call, so that a decision applies to no other. */
  digest?: string;
  /** What the call has done, if it has run already. Then to approve keeps that, and to reject undoes it. */
  effect?: Effect;
}

/** What a call has done. */
export interface Effect {
  created: string[];
  changed: string[];
  deleted: string[];
  /** How many paths the lists leave out, and how many pictures `pictures`. */
  more?: Partial<Record<"created" | "changed" | "deleted" | "pictures", number>>;
  pictures?: EffectPicture[];
  /** Names the files before and after the call. Present if there are pictures. */
  key?: string;
  exit_code: number | null;
  output: string;
  seconds: number;
}

/** A picture before and after a call; null where there was none. */
export interface EffectPicture {
  path: string;
  before: PictureSize | null;
  after: PictureSize | null;
}

export interface PictureSize {
  bytes: number;
  /** Width and height; null for SVG. */
  pixels: [number, number] | null;
}

/** What an approval covers: this call; or, for the rest of the thread, the same call or every call of the tool. */
export type Scope = "call" | "command" | "tool";

export type Decision = { digest?: string } & (
  | { type: "approve"; scope: Scope }
  | { type: "reject"; message?: string }
  | { type: "edit"; edited_action: { name: string; args: Record<string, unknown> } }
);

/** Add the call's digest to a decision, so that the decision applies only to the call that the person saw. */
export function withDigest<D extends Decision>(request: Request, decision: D): D {
  return request.digest ? { ...decision, digest: request.digest } : decision;
}

/** Whether the value of an interrupt is a question of the approval gate. */
export function isQuestion(value: unknown): value is Question {
  const { action_requests, review_configs } = (value ?? {}) as Partial<Question>;
  return Array.isArray(action_requests) && Array.isArray(review_configs);
}
