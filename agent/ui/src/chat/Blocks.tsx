import type { Block } from "./conversation";
import type { Live, Outputs } from "./outputs";
import { RunCard, type RunState } from "./RunCard";

interface BlocksProps {
  /** The message that the blocks stand in. */
  reply: string;
  /** What the thread keeps of them; none while they run. */
  kept: Block[] | null;
  outputs: Outputs;
  busy: boolean;
}

/** The blocks of a reply of the code agent, below it: what each has printed. The code stands in the reply. */
export function Blocks({ reply, kept, outputs, busy }: BlocksProps) {
  const running = outputs.blocksOf(reply);
  if (!kept) {
    return running.map(([key, live], index) => (
      <RunCard
        key={key}
        title={titleOf(index, running.length, live.block?.language ?? "")}
        code={running.length > 1 ? (live.block?.code ?? null) : null}
        language={live.block?.language ?? "python"}
        state={liveState(live, busy)}
        live={live}
        output={live.ended ? live.lines.join("\n") : null}
        exitCode={live.exitCode}
        seconds={live.seconds}
        granted={live.block?.granted ?? undefined}
      />
    ));
  }
  return kept.map((block, index) => {
    const live = outputs.of(block.key);
    if (block.exitCode === null && block.refused === null) return null; // not reached
    return (
      <RunCard
        key={block.key}
        title={titleOf(index, kept.length, block.language)}
        code={null}
        language={block.language}
        state={block.refused !== null ? "refused" : block.exitCode === 0 ? "done" : "failed"}
        live={live}
        output={block.refused !== null ? block.refused : live?.ended ? live.lines.join("\n") : block.output}
        exitCode={block.exitCode}
        seconds={block.seconds}
        granted={live?.block?.granted ?? undefined}
      />
    );
  });
}

function titleOf(index: number, count: number, language: string): string {
  const name = language === "python" ? "Python" : language === "bash" ? "Bash" : language;
  return count > 1 ? `${name}, block ${index + 1}` : `${name} block`;
}

function liveState(live: Live, busy: boolean): RunState {
  if (!live.ended) return busy ? "running" : "stopped";
  return live.exitCode === 0 ? "done" : "failed";
}
