import { ask, RequestFailed, UNREACHABLE } from "../api/http";

export interface Entry {
  name: string;
  kind: "file" | "folder" | "link" | "other";
  bytes: number;
  /** Seconds since 1970. */
  modified: number;
  /** What a link leads to; null where that is not there. */
  leads_to: "file" | "folder" | "other" | null;
}

export interface Listing {
  path: string;
  entries: Entry[];
  /** Whether there are more than are told of. */
  truncated: boolean;
}

export interface Table {
  columns: string[];
  rows: string[][];
  offset: number;
  /** Rows of the file; null where they are too many to count. */
  total: number | null;
  cut: boolean;
}

type Part = "list" | "content" | "table" | "pdf";

/** Where a part of a thread's files is read. */
export function addressOf(thread: string, part: Part, query: Record<string, string | number>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
  return `/files/${encodeURIComponent(thread)}/${part}?${parameters}`;
}

export const list = (thread: string, path: string): Promise<Listing> => ask(addressOf(thread, "list", { path }));

export const tableOf = (thread: string, path: string, offset: number, limit: number): Promise<Table> =>
  ask(addressOf(thread, "table", { path, offset, limit }));

/** An answer that is no JSON. Throws `RequestFailed`, as `ask` does. */
export async function fetched(address: string, signal: AbortSignal): Promise<Response> {
  const response = await fetch(address, { signal }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new RequestFailed(UNREACHABLE, 0);
  });
  if (response.ok) return response;
  const told = (await response.json().catch(() => ({}))) as { error?: string };
  throw new RequestFailed(told.error ?? `The server answered ${response.status}.`, response.status);
}

/** Put a file into the workspace. Throws `RequestFailed`: 409 where there is one, and it is not to be replaced. */
export function upload(thread: string, path: string, content: Blob, replace: boolean): Promise<{ path: string }> {
  return ask(addressOf(thread, "content", replace ? { path, replace: 1 } : { path }), {
    method: "PUT",
    body: content,
    headers: { "Content-Type": "application/octet-stream" },
  });
}
