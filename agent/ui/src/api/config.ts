import { ask } from "./http";

export interface Agent {
  /** The name of the graph in langgraph.json. */
  id: string;
  name: string;
  about: string;
}

/** The configuration that `GET /page/config` returns. */
export interface PageConfig {
  agents: Agent[];
  default_agent: string;
  model: string;
  calls_tools: boolean;
  approvals: "ask" | "effects" | "auto";
  /** Whether rules may be written here. */
  writes_rules: boolean;
  sandbox_scope: "shared" | "thread";
  owner: string | null;
  /** Most bytes of an uploaded file. */
  upload_bytes: number;
}

/** The server refuses runs of this agent if the model calls no tools. */
const NEEDS_TOOLS = "deep_agent";

/** Whether an agent cannot work because the model calls no tools. */
export const lacksTools = (config: PageConfig, agent: string): boolean => agent === NEEDS_TOOLS && !config.calls_tools;

/** Ask whether the server answers. The server's log leaves these requests out. */
export const answers = (): Promise<unknown> => ask("/ok");

export const loadConfig = (): Promise<PageConfig> => ask<PageConfig>("/page/config");
