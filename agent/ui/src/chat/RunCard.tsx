import { useMemo, type ReactNode } from "react";
import { duration } from "../text/time";
import { harmless, visible } from "../text/visible";
import { Code } from "./Code";
import { Icon } from "./Icon";
import { Lines } from "./Lines";
import type { Live } from "./outputs";
import { useElapsed } from "./useConversation";

export type RunState = "running" | "done" | "failed" | "refused" | "waiting" | "stopped";

interface RunCardProps {
  /** What it is: "Command", "Block 2". */
  title: string;
  /** The code that runs; null where it stands above already. */
  code: string | null;
  language: string;
  state: RunState;
  live: Live | undefined;
  /** The whole output, once it has ended. */
  output: string | null;
  exitCode: number | null;
  seconds: number | null;
  /** Why nobody was asked, where a person had approved it before. */
  granted?: string | undefined;
}

const GRANTED: Record<string, string> = {
  command: "Approved earlier in this chat: exactly this",
  tool: "Approved earlier in this chat: every call of this tool",
};

/** A command or a block in the sandbox: its code, its output as it comes, its exit code and its time. */
export function RunCard(props: RunCardProps) {
  const { title, code, language, state, live, output, exitCode, granted } = props;
  const running = state === "running";
  const elapsed = useElapsed(live?.began ?? null, running);
  const seconds = props.seconds ?? live?.seconds ?? (running ? elapsed : null);
  const ended = useMemo(() => (output === null ? null : linesOf(output)), [output]);
  const lines = ended ?? live?.lines ?? [];
  return (
    <details className={`card run ${state}`} open>
      <summary>
        <StateIcon state={state} />
        <span className="card-title">{title}</span>
        <span className="card-facts">
          <ExitCode state={state} exitCode={exitCode} />
          {seconds !== null && <span className="seconds">{duration(seconds)}</span>}
        </span>
      </summary>
      {granted && <p className="note">{GRANTED[granted] ?? "Approved earlier in this chat"}</p>}
      {code !== null && <Code code={visible(code)} language={language} label={`${title}, ${language}`} />}
      {lines.length > 0 && <Lines lines={lines} running={running} label={`Output of ${title.toLowerCase()}`} />}
      {lines.length === 0 && !running && state !== "refused" && <p className="note">It printed nothing.</p>}
    </details>
  );
}

function linesOf(output: string): string[] {
  const text = harmless(output).replace(/\n$/, "");
  return text ? text.split("\n") : [];
}

function ExitCode({ state, exitCode }: { state: RunState; exitCode: number | null }): ReactNode {
  if (state === "running") return <span className="pill busy">running</span>;
  if (state === "refused") return <span className="pill bad">rejected</span>;
  if (state === "stopped") return <span className="pill">stopped</span>;
  if (exitCode === null) return null;
  return <span className={`pill ${exitCode === 0 ? "good" : "bad"}`}>exit {exitCode}</span>;
}

export function StateIcon({ state }: { state: RunState }) {
  if (state === "running") return <span className="spinner" aria-hidden="true" />;
  const name = { done: "check", failed: "cross", refused: "cross", waiting: "pause", stopped: "stop" } as const;
  return <Icon name={name[state]} />;
}
