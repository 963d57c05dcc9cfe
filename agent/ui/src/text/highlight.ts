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
hljs.registerAliases("ts", { languageName: "javascript" });

/** Longer texts get no colours, because highlighting them would block the page. */
const MOST_CHARACTERS = 60_000;

/** `code` as escaped HTML with syntax colours; null if the language is unknown or the code too long. */
export function highlighted(code: string, language: string | undefined): string | null {
  if (!language || code.length > MOST_CHARACTERS || !hljs.getLanguage(language)) return null;
  return hljs.highlight(code, { language, ignoreIllegals: true }).value;
}

/** The language of a file: highlight.js knows the endings of names as aliases. */
export const languageOf = (path: string): string | undefined => path.split(".").pop();
