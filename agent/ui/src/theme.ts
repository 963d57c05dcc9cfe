export type Theme = "system" | "light" | "dark";

const KEY = "code-agent-theme";

/** The theme that was chosen in this browser. */
export function chosenTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

/** Show the page in a theme and keep the choice. `system` follows the operating system. */
export function showTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
}
