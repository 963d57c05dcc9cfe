import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef } from "react";

/** Up to here all lines are in the page, so that it can be searched. */
const FEW = 300;
const LINE_HEIGHT = 19;

interface LinesProps {
  lines: readonly string[];
  /** Whether more are coming: the end is then kept in sight, unless a person has scrolled away from it. */
  running: boolean;
  label: string;
}

/** What a command has printed. Of many lines, only those in sight are drawn. */
export function Lines({ lines, running, label }: LinesProps) {
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const element = box.current;
    const look = () => {
      if (element) atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
    };
    element?.addEventListener("scroll", look, { passive: true });
    return () => element?.removeEventListener("scroll", look);
  }, []);
  useLayoutEffect(() => {
    if (running && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  return (
    <div ref={box} className="lines" tabIndex={0} role="group" aria-label={label}>
      {lines.length <= FEW ? <pre>{lines.join("\n")}</pre> : <Many box={box} lines={lines} />}
    </div>
  );
}

function Many({ box, lines }: { box: React.RefObject<HTMLDivElement | null>; lines: readonly string[] }) {
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
