import { harmless, linesOf } from "../../text/visible";

/** A command or code block as the stream reports it, during the run and afterwards. */
export interface Live {
  /** Printed lines as they arrive; the server sends only samples of a flood. */
  lines: string[];
  /** Start, in milliseconds of the server's clock. */
  began: number | null;
  /** Duration of a block that has ended; null during the run, and for a command, whose result has its duration. */
  seconds: number | null;
  /** The exit code of a block that has ended. */
  exitCode: number | null;
  /** The block's code; null for a command. */
  block: { language: string; code: string; granted: string | null } | null;
  ended: boolean;
}

/** Most lines of a call; older lines are dropped. The result of the call has the whole output. */
const MOST_LINES = 50_000;

interface StreamEvent {
  event_id?: string;
  method: string;
  params: { timestamp?: number; data: unknown };
}

/** Collects the events of the channels `custom` and `tools` by call. Calls `onChange` at most once a frame. */
export class Outputs {
  private readonly live = new Map<string, Live>();
  private readonly drafts = new Map<string, string>();
  /** Ids of handled events: a reopened stream replays its events. */
  private readonly handled = new Set<string>();
  private scheduled = 0;

  constructor(private readonly onChange: () => void) {}

  of(id: string): Live | undefined {
    return this.live.get(id);
  }

  /** The text so far of the reply that a model is writing. */
  draft(): { id: string; text: string } | null {
    const last = [...this.drafts].at(-1);
    return last ? { id: last[0], text: last[1] } : null;
  }

  /** The blocks of a reply that have started, in order. */
  blocksOf(reply: string): [string, Live][] {
    return [...this.live].filter(([id, each]) => each.block && id.startsWith(`${reply}/`));
  }

  feed(event: StreamEvent): void {
    const data = event.params.data as Record<string, unknown> | null;
    if (!data || (event.event_id && this.handled.has(event.event_id))) return;
    if (event.event_id) this.handled.add(event.event_id);
    const now = event.params.timestamp ?? Date.now();
    if (event.method === "tools") this.tool(data, now);
    else this.custom((data["payload"] ?? data) as Record<string, unknown>, now);
    this.scheduled ||= requestAnimationFrame(() => {
      this.scheduled = 0;
      this.onChange();
    });
  }

  private tool(data: Record<string, unknown>, now: number): void {
    const live = this.at(data["tool_call_id"]);
    live.ended = data["event"] === "tool-finished" || data["event"] === "tool-error";
    if (data["event"] === "tool-started") live.began ??= now;
  }

  private custom(data: Record<string, unknown>, now: number): void {
    const text = String(data["text"] ?? "");
    if (data["type"] === "output") {
      const live = this.at(data["tool_call_id"]);
      if (!live.ended) appendLines(live.lines, text);
    } else if (data["type"] === "text") {
      const id = String(data["id"]);
      const before = this.drafts.get(id) ?? "";
      this.drafts.delete(id); // The latest draft is the last of the map.
      this.drafts.set(id, before + text);
    } else if (data["type"] === "code") {
      const live = this.at(data["id"]);
      live.began ??= now;
      const granted = typeof data["granted"] === "string" ? data["granted"] : null;
      live.block = { language: String(data["language"]), code: String(data["code"]), granted };
    } else if (data["type"] === "execution") {
      const live = this.at(data["id"]);
      live.ended = true;
      live.seconds = Number(data["seconds"]);
      live.exitCode = Number(data["exit_code"]);
      live.lines = linesOf(String(data["output"] ?? ""));
    }
  }

  private at(key: unknown): Live {
    const id = String(key);
    const found = this.live.get(id);
    if (found) return found;
    const live = { lines: [], began: null, seconds: null, exitCode: null, block: null, ended: false };
    this.live.set(id, live);
    return live;
  }
}

function appendLines(lines: string[], text: string): void {
  const pieces = harmless(text).split("\n");
  lines[Math.max(0, lines.length - 1)] = (lines.at(-1) ?? "") + pieces[0];
  for (const piece of pieces.slice(1)) lines.push(piece);
  if (lines.length > MOST_LINES) lines.splice(0, lines.length - MOST_LINES);
}
