/** A failed request. The message tells the reader what to do. */
export class RequestFailed extends Error {
  /** The HTTP status; 0 if the server did not answer. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

export const UNREACHABLE =
  "The server does not answer. Start the server (make dev). This page goes on as soon as the server is back.";
export const NEEDS_TOKEN = "This server needs a token. Load the page again and give the token as the password.";

/** Send a request to this server. Throws `RequestFailed`, or the error of an abort. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(path, init).catch((error: unknown) => {
    throw init.signal?.aborted ? error : new RequestFailed(UNREACHABLE, 0);
  });
  if (!response.ok) throw new RequestFailed(await reasonOf(response), response.status);
  return response;
}

/** Send a request whose answer is JSON; undefined for an empty answer. Throws `RequestFailed`. */
export async function ask<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await request(path, { ...init, headers: { Accept: "application/json", ...init.headers } });
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Like `ask`, with a JSON body. */
export function send<T>(method: "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  return ask<T>(path, init);
}

async function reasonOf(response: Response): Promise<string> {
  try {
    const { error, detail } = (await response.json()) as { error?: unknown; detail?: unknown };
    const reason = error ?? detail;
    if (typeof reason === "string" && reason) return reason;
  } catch {
    // The answer is not JSON: only its status is known.
  }
  if (response.status === 401) return NEEDS_TOKEN;
  return `The server answered ${response.status} ${response.statusText}.`;
}
