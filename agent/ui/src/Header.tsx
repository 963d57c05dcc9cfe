import { useState } from "react";
import type { PageConfig } from "./api/config";
import { Icon } from "./chat/Icon";
import { harmless } from "./text/visible";
import { chosenTheme, showTheme, type Theme } from "./theme";

interface HeaderProps {
  config: PageConfig;
  title: string;
  agent: string | null;
  /** A chat that has begun stays with its agent. */
  fixed: boolean;
  filesShown: boolean;
  threadsShown: boolean;
  onAgent: (id: string) => void;
  onThreads: () => void;
  onFiles: () => void;
}

/** The agent that does nothing with a model that calls no tools: the server refuses its runs. */
const NEEDS_TOOLS = "deep_agent";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

/** The chat's title, its agent and the model, and what can be shown beside it. */
export function Header(props: HeaderProps) {
  const { config, title, agent, fixed } = props;
  const [theme, setTheme] = useState(chosenTheme);
  const turn = () => {
    showTheme(NEXT[theme]);
    setTheme(NEXT[theme]);
  };
  const known = config.agents.find((each) => each.id === agent);
  return (
    <header className="head">
      <button
        type="button"
        className="quiet threads-button"
        aria-label="Chats"
        aria-expanded={props.threadsShown}
        aria-controls="threads"
        onClick={props.onThreads}
      >
        <Icon name="menu" />
      </button>
      <h1>{harmless(title)}</h1>
      <div className="about">
        <label title={known?.about}>
          <span className="hidden">Agent</span>
          {fixed ? (
            <span className="agent">{known?.name ?? agent} agent</span>
          ) : (
            <select value={agent ?? ""} onChange={(event) => props.onAgent(event.target.value)} aria-label="Agent">
              {config.agents.map((each) => (
                <option
                  key={each.id}
                  value={each.id}
                  title={each.about}
                  disabled={each.id === NEEDS_TOOLS && !config.calls_tools}
                >
                  {each.name} agent
                  {each.id === NEEDS_TOOLS && !config.calls_tools && " (this model calls no tools)"}
                </option>
              ))}
            </select>
          )}
        </label>
        <span className="model" title="The settings choose the model: MODEL, OPENAI_BASE_URL or OPENAI_API_KEY">
          <span className="hidden">Model: </span>
          {harmless(config.model)}
        </span>
      </div>
      <button
        type="button"
        className="quiet"
        onClick={turn}
        aria-label={`Colours: ${theme}`}
        title={`Colours: ${theme === "system" ? "as your system has them" : theme}`}
      >
        <Icon name="theme" />
      </button>
      <button
        type="button"
        className="quiet"
        aria-label="Files"
        title="Files of the workspace"
        aria-expanded={props.filesShown}
        onClick={props.onFiles}
      >
        <Icon name="files" />
      </button>
    </header>
  );
}
