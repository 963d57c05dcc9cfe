/** What a request that failed says, in words that tell what to do. */
export class RequestFailed extends Error {
  /** The HTTP status; 0 where no answer came. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

export const UNREACHABLE =
  "The server does not answer. Start it where it runs (make dev); this page goes on by itself as soon as it is back.";

/** Ask this server for JSON. Throws `RequestFailed`. */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers: { Accept: "application/json", ...init.headers } });
  } catch {
    throw new RequestFailed(UNREACHABLE, 0);
  }
  if (!response.ok) throw new RequestFailed(await reason(response), response.status);
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** As `ask`, with a JSON body. */
export function send<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  return ask<T>(path, init);
}

async function reason(response: Response): Promise<string> {
  try {
    const told = (await response.json()) as { error?: unknown; detail?: unknown };
    const said = told.error ?? told.detail;
    if (typeof said === "string" && said) return said;
  } catch {
    // No JSON: the status is all there is.
  }
  if (response.status === 401) return "This server needs a token. Load the page again and give it as the password.";
  return `The server answered ${response.status} ${response.statusText}.`;
}
