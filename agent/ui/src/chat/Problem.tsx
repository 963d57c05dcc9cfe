import { NEEDS_TOKEN, UNREACHABLE } from "../api/http";
import { Alert } from "../components/Notice";

interface ProblemProps {
  error: unknown;
  /** Whether the model calls no tools and the agent of the chat needs them. */
  unable: boolean;
  onRetry: (() => void) | null;
}

/** The error of a run, with a button to run again. A run that a person stopped has no error to show. */
export function Problem({ error, unable, onRetry }: ProblemProps) {
  if (/^(?:CancelledError|UserInterrupt)\b/.test(textOf(error))) {
    return (
      <div className="bar" role="status">
        <p className="note">Stopped. Send a message to go on, or let the agent try again. A reply that was not finished is not kept.</p>
        {onRetry && (
          <button type="button" onClick={onRetry}>
            Try again
          </button>
        )}
      </div>
    );
  }
  if (unable) {
    return (
      <Alert>
        <p>
          <strong>The agent could not go on.</strong> The model calls no tools, and the agent of this chat needs them. A chat
          keeps its agent: start a new chat with the code agent, or choose another model (MODEL).
        </p>
      </Alert>
    );
  }
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

const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The message for a person: what went wrong and what to do. */
export function explained(error: unknown): string {
  const text = textOf(error);
  if (/failed to fetch|networkerror|load failed/i.test(text)) return UNREACHABLE;
  // The status of this server's answer. The text of a run's error may contain the status of another server's answer.
  const status = /^(?:Protocol request failed:|HTTP) (\d{3})\b/.exec(text)?.[1];
  if (status === "401") return NEEDS_TOKEN;
  if (status === "404") return "This chat is not on the server any more. Start a new chat.";
  if (status === "409") return "Another program is running this chat. Wait until that run has ended, and try again.";
  return text.replace(/^Protocol request failed: /, "").replace(/^[A-Z]\w*\((['"])([\s\S]*)\1\)$/, "$2");
}
