import { useVirtualizer } from "@tanstack/react-virtual";
import type { RefObject } from "react";
import { useScrollToEnd } from "../useScrollToEnd";

/** Up to this number all lines are in the page, so that the browser can search them. */
const FEW = 300;
const LINE_HEIGHT = 19;

/** The output of a command. Of many lines, only those in sight are drawn. `running`: more lines come. */
export function Lines({ lines, running, label }: { lines: readonly string[]; running: boolean; label: string }) {
  const { box } = useScrollToEnd(lines.length, running);
  return (
    <div {...box} className="lines" tabIndex={0} role="group" aria-label={label}>
      {lines.length <= FEW ? <pre>{lines.join("\n")}</pre> : <Many box={box.ref} lines={lines} />}
    </div>
  );
}

function Many({ box, lines }: { box: RefObject<HTMLDivElement | null>; lines: readonly string[] }) {
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  const longest = lines.reduce((most, line) => Math.max(most, line.length), 0);
  return (
    <pre style={{ height: virtual.getTotalSize(), minWidth: `${longest}ch`, position: "relative" }}>
      {virtual.getVirtualItems().map((row) => (
        <div key={row.key} className="line" style={{ transform: `translateY(${row.start}px)` }}>
          {lines[row.index]}
          {"\n"}
        </div>
      ))}
    </pre>
  );
}
