import { harmless } from "../text/visible";

/** What is known of a command or a block from the stream, while it runs and afterwards. */
export interface Live {
  /** The lines it has printed, as they come; of a flood, samples. */
  lines: string[];
  /** When it began, in milliseconds of the server's clock. */
  began: number | null;
  /** Seconds it took; null while it runs. */
  seconds: number | null;
  /** Of a block that has ended: its exit code. */
  exitCode: number | null;
  /** Of a block: what the sandbox says of it. */
  block: { language: string; code: string; granted: string | null } | null;
  ended: boolean;
}

/** Older lines are let go: the whole output comes with the result. */
const MOST_LINES = 50_000;

interface StreamEvent {
  event_id?: string;
  method: string;
  params: { timestamp?: number; data: unknown };
}

/** Gathers the custom and the tools channel of a thread by command. Tells of news once a frame. */
export class Outputs {
  private readonly live = new Map<string, Live>();
  private readonly drafts = new Map<string, string>();
  private readonly listeners = new Set<() => void>();
  /** Ids of events: a stream that is opened anew begins with what it had told before. */
  private readonly heard = new Set<string>();
  private scheduled = 0;
  private version = 0;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Changes with each piece of news. */
  readonly read = (): number => this.version;

  of(id: string): Live | undefined {
    return this.live.get(id);
  }

  /** What a model has said so far of a reply that has not ended. */
  draft(): { id: string; text: string } | null {
    const last = [...this.drafts].at(-1);
    return last ? { id: last[0], text: last[1] } : null;
  }

  /** The blocks of a reply that have begun, in order. */
  blocksOf(reply: string): [string, Live][] {
    return [...this.live].filter(([id, each]) => each.block && id.startsWith(`${reply}/`));
  }

  feed(event: StreamEvent): void {
    const data = event.params.data as Record<string, unknown> | null;
    if (!data || (event.event_id && this.heard.has(event.event_id))) return;
    if (event.event_id) this.heard.add(event.event_id);
    const now = event.params.timestamp ?? Date.now();
    if (event.method === "tools") this.tool(data, now);
    else this.custom(unwrapped(data), now);
    this.tell();
  }

  private tool(data: Record<string, unknown>, now: number): void {
    const live = this.at(data["tool_call_id"]);
    if (!live) return;
    if (data["event"] === "tool-started") {
      live.began ??= now;
      live.ended = false;
    } else if (data["event"] === "tool-finished" || data["event"] === "tool-error") {
      live.ended = true;
      if (live.began !== null) live.seconds = (now - live.began) / 1000;
    }
  }

  private custom(data: Record<string, unknown>, now: number): void {
    if (data["type"] === "output") {
      const live = this.at(data["tool_call_id"]);
      if (live && !live.ended) append(live.lines, String(data["text"] ?? ""));
    } else if (data["type"] === "text") {
      this.say(String(data["id"]), String(data["text"] ?? ""));
    } else if (data["type"] === "code") {
      const live = this.at(data["id"]);
      if (!live) return;
      live.began ??= now;
      const granted = typeof data["granted"] === "string" ? data["granted"] : null;
      live.block = { language: String(data["language"]), code: String(data["code"]), granted };
    } else if (data["type"] === "execution") {
      const live = this.at(data["id"]);
      if (!live) return;
      live.ended = true;
      live.seconds = Number(data["seconds"]);
      live.exitCode = Number(data["exit_code"]);
      live.lines = harmless(String(data["output"] ?? "")).split("\n");
    }
  }

  private say(id: string, text: string): void {
    const before = this.drafts.get(id) ?? "";
    this.drafts.delete(id);
    this.drafts.set(id, before + text);
  }

  private at(id: unknown): Live | null {
    if (typeof id !== "string") return null;
    let live = this.live.get(id);
    if (!live) {
      live = { lines: [], began: null, seconds: null, exitCode: null, block: null, ended: false };
      this.live.set(id, live);
    }
    return live;
  }

  private tell(): void {
    // A hidden page draws no frames, and needs none.
    this.scheduled ||= requestAnimationFrame(() => {
      this.scheduled = 0;
      this.version += 1;
      for (const listener of this.listeners) listener();
    });
  }
}

function unwrapped(data: Record<string, unknown>): Record<string, unknown> {
  const payload = data["payload"];
  return payload && typeof payload === "object" ? (payload as Record<string, unknown>) : data;
}

function append(lines: string[], text: string): void {
  const pieces = harmless(text).split("\n");
  lines[Math.max(0, lines.length - 1)] = (lines.at(-1) ?? "") + pieces[0];
  for (const piece of pieces.slice(1)) lines.push(piece);
  if (lines.length > MOST_LINES) lines.splice(0, lines.length - MOST_LINES);
}
