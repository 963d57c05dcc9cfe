import { ask, send } from "./http";

/** A rule that would always allow a call. */
export interface Offer {
  /** What the rule covers. */
  label: string;
  /** The text that would be added to the rules file. */
  rule: string;
}

export interface Offers {
  /** The path of the rules file. */
  file: string;
  offers: Offer[];
  /** Why there is no offer. */
  reason: string | null;
}

const pathOf = (thread: string, digest: string) => `/page/threads/${thread}/rules/${encodeURIComponent(digest)}`;

/** The rules that would allow a call that waits in a thread. */
export const offersFor = (thread: string, digest: string): Promise<Offers> => ask(pathOf(thread, digest));

/** Add a rule to the rules file. The call still waits. */
export const writeRule = (thread: string, digest: string, { rule }: Offer): Promise<unknown> =>
  send("POST", pathOf(thread, digest), { rule });
