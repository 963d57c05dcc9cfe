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
  approvals: "ask" | "auto";
  sandbox_scope: "shared" | "thread";
  owner: string | null;
  /** Most bytes of an uploaded file. */
  upload_bytes: number;
}

export const loadConfig = (): Promise<PageConfig> => ask<PageConfig>("/page/config");
