const THREAD = /^\/app\/t\/([0-9a-f-]{36})$/;

/** The thread that an address of the page names. */
export function threadIn(path: string): string | null {
  return THREAD.exec(path)?.[1] ?? null;
}

/** The address of a thread; of a new chat for null. */
export function addressOf(thread: string | null): string {
  return thread ? `/app/t/${thread}` : "/app";
}
