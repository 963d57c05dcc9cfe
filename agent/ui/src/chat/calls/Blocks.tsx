import { useChat } from "../stream/ChatContext";
import type { Block } from "../stream/itemsOf";
import { RunCard } from "./RunCard";

interface BlocksProps {
  /** The id of the message that holds the blocks. */
  reply: string;
  /** The blocks in the thread's state; null while they run. */
  kept: Block[] | null;
}

/** The output of each code block in a reply of the code agent. The reply itself shows the code. */
export function Blocks({ reply, kept }: BlocksProps) {
  const { outputs, busy } = useChat();
  if (!kept) {
    const running = outputs.blocksOf(reply);
    return running.map(([key, live], index) => (
      <RunCard
        key={key}
        title={titleOf(index, running.length, live.block!.language)}
        code={running.length > 1 ? live.block!.code : null}
        language={live.block!.language}
        state={!live.ended ? (busy ? "running" : "stopped") : live.exitCode === 0 ? "done" : "failed"}
        live={live}
      />
    ));
  }
  return kept.map((block, index) => {
    const live = outputs.of(block.key);
    if (block.exitCode === null && block.refused === null) return null; // The block did not run.
    return (
      <RunCard
        key={block.key}
        title={titleOf(index, kept.length, block.language)}
        code={null}
        language={block.language}
        state={block.refused !== null ? "refused" : block.exitCode === 0 ? "done" : "failed"}
        live={live}
        result={{ ...block, text: block.refused ?? (live?.ended ? null : block.output) }}
      />
    );
  });
}

function titleOf(index: number, count: number, language: string): string {
  const name = language === "python" ? "Python" : "Bash";
  return count > 1 ? `${name}, block ${index + 1}` : `${name} block`;
}
