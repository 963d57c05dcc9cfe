import { ask, send } from "./http";

/** An approval that holds for the rest of a thread. */
export interface Grant {
  id: string;
  tool: string;
  /** Digest of the call that is covered; null if every call of the tool is. */
  digest: string | null;
  /** The whole call that the person saw. */
  shown: string;
}

export const listGrants = (thread: string): Promise<{ grants: Grant[] }> => ask(`/page/threads/${thread}/grants`);

export const revokeGrant = (thread: string, id: string): Promise<unknown> =>
  send("DELETE", `/page/threads/${thread}/grants/${encodeURIComponent(id)}`);
