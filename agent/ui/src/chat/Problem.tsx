interface ProblemProps {
  error: unknown;
  onRetry: (() => void) | null;
}

/** What went wrong in a run, and what to do. */
export function Problem({ error, onRetry }: ProblemProps) {
  return (
    <div className="problem" role="alert">
      <p>
        <strong>The agent could not go on.</strong> {explained(error)}
      </p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** An error in words that say what to do. */
export function explained(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (/failed to fetch|networkerror|load failed/i.test(text)) {
    return "The server does not answer. Start it again where it runs (make dev); this page goes on by itself.";
  }
  if (/\b401\b/.test(text)) return "This server needs a token. Load the page again and give it as the password.";
  if (/\b404\b/.test(text)) return "This chat is not on the server any more. Begin a new one.";
  if (/\b409\b/.test(text)) return "Another program is at work in this chat. Wait until it has ended, and try again.";
  return text.replace(/^Protocol request failed: /, "").replace(/^\w*(?:Error|Exception)\((['"])([\s\S]*)\1\)$/, "$2");
}
