import { useState } from "react";
import { lacksTools, type PageConfig } from "./api/config";
import { IconButton } from "./components/Icon";
import { harmless } from "./text/visible";
import { chosenTheme, showTheme, type Theme } from "./theme";

interface HeaderProps {
  config: PageConfig;
  title: string;
  agent: string | null;
  /** True once the chat has started. Its agent cannot change then. */
  fixed: boolean;
  filesShown: boolean;
  threadsShown: boolean;
  onAgent: (id: string) => void;
  onThreads: () => void;
  onFiles: () => void;
}

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

/** The title of the chat, its agent and model, and buttons for the panels and colours. */
export function Header(props: HeaderProps) {
  const { config, title, agent, fixed } = props;
  const [theme, setTheme] = useState(chosenTheme);
  const nextTheme = () => {
    showTheme(NEXT[theme]);
    setTheme(NEXT[theme]);
  };
  const known = config.agents.find((each) => each.id === agent);
  return (
    <header className="head bar">
      <IconButton
        icon="menu"
        className="quiet threads-button"
        aria-label="Chats"
        aria-expanded={props.threadsShown}
        aria-controls="threads"
        onClick={props.onThreads}
      />
      <h1 className="cut grow">{harmless(title)}</h1>
      <div className="about bar">
        <label title={known?.about}>
          <span className="hidden">Agent</span>
          {fixed ? (
            <span className="agent">{known?.name ?? agent} agent</span>
          ) : (
            <select
              className="box"
              value={agent ?? ""}
              onChange={(event) => props.onAgent(event.target.value)}
              aria-label="Agent"
            >
              {config.agents.map((each) => (
                <option
                  key={each.id}
                  value={each.id}
                  title={each.about}
                  disabled={lacksTools(config, each.id)}
                >
                  {each.name} agent
                  {lacksTools(config, each.id) && " (this model calls no tools)"}
                </option>
              ))}
            </select>
          )}
        </label>
        <span className="model pill cut" title="The settings choose the model: MODEL, OPENAI_BASE_URL or OPENAI_API_KEY">
          <span className="hidden">Model: </span>
          {harmless(config.model)}
        </span>
      </div>
      <IconButton
        icon="theme"
        aria-label={`Colours: ${theme}`}
        title={`Colours: ${theme === "system" ? "same as your system" : theme}`}
        onClick={nextTheme}
      />
      <IconButton
        icon="files"
        aria-label="Files"
        title="Files of the workspace"
        aria-expanded={props.filesShown}
        onClick={props.onFiles}
      />
    </header>
  );
}
