export type Theme = "system" | "light" | "dark";

const KEY = "code-agent-theme";

/** What was chosen in this browser. */
export function chosenTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "system";
}

/** Show the page in a theme; `system` is what the person's system says. */
export function showTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
}
