import { useEffect, useMemo, useState, type ReactNode } from "react";
import { duration } from "../../text/time";
import { harmless, linesOf, visible } from "../../text/visible";
import { Code } from "../../components/Code";
import { Icon } from "../../components/Icon";
import { Lines } from "./Lines";
import { useChat } from "../stream/ChatContext";
import type { Interrupted } from "../stream/itemsOf";
import type { Live } from "../stream/outputs";

export type RunState = "running" | "done" | "failed" | "refused" | "waiting" | "stopped";

interface RunCardProps {
  /** Such as "Command" or "Python, block 2". */
  title: string;
  /** The code that runs; null if the reply above shows it. */
  code: string | null;
  language: string;
  state: RunState;
  live: Live | undefined;
  /** The result in the thread's state. Its text is null if `live` has the whole output. */
  result?: { text: string | null; exitCode: number | null; seconds: number | null; interrupted?: Interrupted } | null;
  /** Whether a person has changed the code. */
  edited?: boolean;
  /** The scope of the earlier approval that covers this call. */
  granted?: string | undefined;
}

const GRANTED: Record<string, string> = {
  command: "Approved earlier in this chat: exactly this",
  tool: "Approved earlier in this chat: every call of this tool",
  rule: "Allowed by a rule",
  effect: "Ran at once, and changed nothing that needs approval",
};

export const EDITED = "A person changed this call before it ran";

/** The exit code that the sandbox gives if a command was interrupted or could not run. Its duration is then 0. */
const NO_RESULT = 125;

/** A command or a block in the sandbox: its code, live output, exit code and duration. */
export function RunCard({ title, code, language, state, live, result, ...props }: RunCardProps) {
  const { away } = useChat();
  const running = state === "running";
  // A command that has ended waits for its result, which has its duration, until the other calls of its reply end.
  const counting = running && !live?.ended;
  const elapsed = useElapsed(live?.began ?? null, counting && !away);
  // The output then says what happened.
  const explained = result?.exitCode === NO_RESULT && result.seconds === 0;
  const seconds = explained ? null : (result?.seconds ?? live?.seconds ?? (counting ? elapsed : null));
  const interrupted = result?.interrupted ?? null;
  // The text of an interrupted command explains what happened. Its output is only in the stream.
  const text = interrupted ? null : result?.text;
  const lines = useMemo(() => (text == null ? null : linesOf(text)), [text]) ?? live?.lines ?? [];
  const granted = props.granted ?? live?.block?.granted;
  return (
    <details className={`card run ${state} ${explained && !interrupted ? "explained" : ""}`} open>
      <summary className="bar">
        <StateIcon state={state} />
        <span className="card-title cut grow">{title}</span>
        <span className="card-facts bar">
          {explained && !interrupted ? (
            <span className="pill bad">no result</span>
          ) : (
            <ExitCode state={state} interrupted={interrupted} exitCode={result?.exitCode ?? live?.exitCode ?? null} />
          )}
          {seconds !== null && <span className="seconds">{duration(seconds)}</span>}
        </span>
      </summary>
      {granted && <p className="note">{GRANTED[granted] ?? "Approved earlier in this chat"}</p>}
      {props.edited && <p className="note">{EDITED}</p>}
      {code !== null && <Code code={visible(code)} language={language} label={`${title}, ${language}`} />}
      {lines.length > 0 && <Lines lines={lines} running={running} label={`Output of ${title.toLowerCase()}`} />}
      {lines.length === 0 && !running && state !== "refused" && (
        <p className="note">{state !== "stopped" || live?.began ? "It printed nothing." : "Its output was not kept."}</p>
      )}
      {interrupted && <p className="note">{harmless(result?.text ?? "")}</p>}
    </details>
  );
}

interface ExitCodeProps {
  state: RunState;
  interrupted: Interrupted;
  exitCode: number | null;
}

function ExitCode({ state, interrupted, exitCode }: ExitCodeProps): ReactNode {
  if (state === "running") return <span className="pill busy">running</span>;
  if (state === "refused") return <span className="pill bad">rejected</span>;
  if (interrupted === "ended") return <span className="pill">the server ended</span>;
  if (state === "stopped") return <span className="pill">stopped</span>;
  if (exitCode === null) return null;
  return <span className={`pill ${exitCode === 0 ? "good" : "bad"}`}>exit {exitCode}</span>;
}

const ICONS = { done: "check", failed: "cross", refused: "cross", waiting: "pause", stopped: "stop" } as const;

export function StateIcon({ state }: { state: RunState }) {
  if (state === "running") return <span className="spinner" aria-hidden="true" />;
  return <Icon name={ICONS[state]} />;
}

/** Seconds since `began`, updated while `counting`. */
function useElapsed(began: number | null, counting: boolean): number | null {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!counting) return;
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, [counting]);
  return began === null ? null : Math.max(0, (now - began) / 1000);
}
