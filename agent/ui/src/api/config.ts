import { ask } from "./http";

export interface Agent {
  /** As langgraph.json names its graph. */
  id: string;
  name: string;
  about: string;
}

/** What this installation is: `GET /page/config`. */
export interface PageConfig {
  agents: Agent[];
  default_agent: string;
  model: string;
  calls_tools: boolean;
  approvals: "ask" | "auto";
  sandbox_scope: "shared" | "thread";
  owner: string | null;
  /** Bytes that a file sent here may have. */
  upload_bytes: number;
  version: string;
}

export const loadConfig = (): Promise<PageConfig> => ask<PageConfig>("/page/config");
