import { ask, send } from "./http";

/** Something a person approved for the rest of a thread. */
export interface Grant {
  id: string;
  tool: string;
  /** Of the one call that is covered; null: every call of the tool. */
  digest: string | null;
  /** The call that the person saw, whole. */
  shown: string;
}

export async function listGrants(thread: string): Promise<Grant[]> {
  return (await ask<{ grants: Grant[] }>(`/page/threads/${thread}/grants`)).grants;
}

export const revokeGrant = (thread: string, id: string): Promise<unknown> =>
  send("DELETE", `/page/threads/${thread}/grants/${encodeURIComponent(id)}`);
