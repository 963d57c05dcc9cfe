import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import sql from "highlight.js/lib/languages/sql";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = { bash, css, diff, javascript, json, markdown, python, sql, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** Longer texts are shown plain: colouring them would stop the page for a while. */
const MOST_CHARACTERS = 60_000;

/** HTML of `code` with syntax colours, every character of it escaped; null where its language is not known. */
export function highlighted(code: string, language: string | undefined): string | null {
  if (!language || code.length > MOST_CHARACTERS || !hljs.getLanguage(language)) return null;
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}

const BY_ENDING: Record<string, string> = {
  py: "python", sh: "bash", js: "javascript", ts: "javascript", json: "json", md: "markdown", yml: "yaml",
  yaml: "yaml", sql: "sql", html: "xml", svg: "xml", xml: "xml", css: "css",
};

/** The language that a file's name speaks of. */
export function languageOf(path: string): string | undefined {
  return BY_ENDING[path.split(".").pop()?.toLowerCase() ?? ""];
}
