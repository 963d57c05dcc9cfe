import { ask } from "../api/http";

export interface Entry {
  name: string;
  kind: "file" | "folder" | "link" | "other";
  bytes: number;
  /** Seconds since 1970. */
  modified: number;
  /** The kind of a link's target; null if the target does not exist. */
  leads_to: "file" | "folder" | "other" | null;
}

/** A file of a thread, as the views of files get it. */
export interface FileProps {
  thread: string;
  path: string;
  /** Changes when the file may have changed. */
  version: string;
}

export interface Listing {
  path: string;
  entries: Entry[];
  /** Whether the folder has more entries than are listed. */
  truncated: boolean;
}

export interface Table {
  columns: string[];
  rows: string[][];
  offset: number;
  /** Rows of the file; null if the server did not count them all. */
  total: number | null;
  cut: boolean;
}

/** A turn of a thread: its begin or its end. */
export interface Moment {
  turn: number;
  moment: "before" | "after";
}

type Part = "list" | "content" | "table" | "pdf";

/** The URL of a view of a thread's file or folder. */
export function addressOf(thread: string, part: Part, query: Record<string, string | number>): string {
  const parameters = Object.entries(query).map(([name, value]) => [name, String(value)]);
  return `/files/${encodeURIComponent(thread)}/${part}?${new URLSearchParams(parameters)}`;
}

export const list = (thread: string, path: string): Promise<Listing> => ask(addressOf(thread, "list", { path }));

export const tableOf = (thread: string, path: string, offset: number, limit: number): Promise<Table> =>
  ask(addressOf(thread, "table", { path, offset, limit }));

/** Upload a file to the workspace. Throws `RequestFailed`; its status is 409 if the file exists and `replace` is false. */
export function upload(thread: string, path: string, content: Blob, replace: boolean): Promise<{ path: string }> {
  return ask(addressOf(thread, "content", replace ? { path, replace: 1 } : { path }), {
    method: "PUT",
    body: content,
    headers: { "Content-Type": "application/octet-stream" },
  });
}
