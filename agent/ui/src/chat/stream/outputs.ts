import { harmless, linesOf } from "../../text/visible";

/** A command or code block as the stream reports it, during the run and afterwards. */
export interface Live {
  /** Printed lines as they arrive; the server sends only samples of a flood. */
  lines: string[];
  /** Number of events with output that the server has sent. */
  parts: number;
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
  params: { namespace?: readonly string[]; timestamp?: number; data: unknown };
}

/** Stands in the output of a command where the server's stream has left out an event. */
const GAP = "[output is missing here]";

/** Collects the events of the channels `custom` and `tools` by call, and which replies are whole. Calls `onChange` at most once a frame. */
export class Outputs {
  private readonly live = new Map<string, Live>();
  private readonly drafts = new Map<string, string>();
  /** Ids of handled events: a reopened stream replays its events. */
  private readonly handled = new Set<string>();
  /** Ids of replies that a model has begun and not ended, in order. */
  private readonly unfinished = new Set<string>();
  /** Ids of replies that are not in the thread because their run ended while the model wrote them. */
  private readonly lost = new Set<string>();
  /** Ids of the thread's messages, as of the end of the last run; null if not known yet. */
  private saved: ReadonlySet<string> | null = null;
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

  /**
   * Whether a reply is not in the thread because its run ended while the model wrote the reply. The stream keeps the
   * reply and would show it below newer messages.
   */
  isLost(id: string): boolean {
    return this.lost.has(id);
  }

  /** Call with the ids of the thread's messages when no run is active. */
  settle(saved: ReadonlySet<string>): void {
    this.saved = saved;
    this.settleReplies();
    this.onChange();
  }

  private settleReplies(): void {
    // A model that is stopped on purpose after a code block does not end its reply, but the reply is in the thread.
    for (const id of [...this.unfinished, ...this.lost]) {
      if (this.saved?.has(id)) {
        this.unfinished.delete(id);
        this.lost.delete(id);
      } else if (this.saved) this.lost.add(id);
    }
  }

  feed(event: StreamEvent): void {
    const data = event.params.data as Record<string, unknown> | null;
    if (!data || (event.event_id && this.handled.has(event.event_id))) return;
    if (event.event_id) this.handled.add(event.event_id);
    const now = event.params.timestamp ?? Date.now();
    if (event.method === "tools") this.tool(data, now);
    else if (event.method === "messages" || event.method === "lifecycle") {
      if (event.params.namespace?.length === 0) this.reply(event.method, data);
    } else this.custom((data["payload"] ?? data) as Record<string, unknown>, now);
    this.scheduled ||= requestAnimationFrame(() => {
      this.scheduled = 0;
      this.onChange();
    });
  }

  private reply(method: string, data: Record<string, unknown>): void {
    if (data["event"] === "message-start") this.unfinished.add(String(data["id"]));
    else if (data["event"] === "message-finish") {
      const ended = [...this.unfinished].at(-1)!;
      this.unfinished.delete(ended);
      this.lost.delete(ended);
    }
    else if (method === "lifecycle" && data["event"] === "running") {
      this.settleReplies();
      this.drafts.clear();
    }
  }

  private tool(data: Record<string, unknown>, now: number): void {
    const live = this.at(data["tool_call_id"]);
    live.ended = data["event"] === "tool-finished" || data["event"] === "tool-error";
    if (data["event"] !== "tool-started") return;
    live.began ??= now;
    live.parts = 0; // A call that begins again counts anew.
  }

  private custom(data: Record<string, unknown>, now: number): void {
    const text = String(data["text"] ?? "");
    if (data["type"] === "output") {
      const live = this.at(data["tool_call_id"]);
      const part = Number(data["part"] ?? live.parts);
      if (live.ended || part < live.parts) return;
      if (part > live.parts) appendLines(live.lines, `${live.lines.at(-1) ? "\n" : ""}${GAP}\n`);
      live.parts = part + 1;
      appendLines(live.lines, text);
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
    const live = { lines: [], parts: 0, began: null, seconds: null, exitCode: null, block: null, ended: false };
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
