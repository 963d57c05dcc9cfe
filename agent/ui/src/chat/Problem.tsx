import { NEEDS_TOKEN, UNREACHABLE } from "../api/http";
import { Alert } from "../components/Notice";

/** The error of a run, with a button to run again. */
export function Problem({ error, onRetry }: { error: unknown; onRetry: (() => void) | null }) {
  return (
    <Alert>
      <p>
        <strong>The agent could not go on.</strong> {explained(error)}
      </p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </Alert>
  );
}

/** The message for a person: what went wrong and what to do. */
export function explained(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  if (/failed to fetch|networkerror|load failed/i.test(text)) return UNREACHABLE;
  if (/\b401\b/.test(text)) return NEEDS_TOKEN;
  if (/\b404\b/.test(text)) return "This chat is not on the server any more. Start a new chat.";
  if (/\b409\b/.test(text)) return "Another program is running this chat. Wait until that run has ended, and try again.";
  return text.replace(/^Protocol request failed: /, "").replace(/^\w*(?:Error|Exception)\((['"])([\s\S]*)\1\)$/, "$2");
}
