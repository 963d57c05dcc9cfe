import type { ReactNode } from "react";
import { Code } from "../components/Code";
import { argumentFields, Fields } from "../components/Fields";
import { languageOf } from "../text/highlight";
import { visible } from "../text/visible";
import { Diff } from "./Diff";
import type { Request } from "./question";

/** Shows a whole call before its approval: its code, its change or its arguments. Nothing is left out or folded. */
export function CallShown({ request: { name, args, description } }: { request: Request }) {
  const { command, code, language = "python", content, old_string: before, new_string: after } = args;
  /** The other arguments, below what the heading and `main` show. */
  const rest = (without: readonly string[], main?: ReactNode) => {
    const fields = argumentFields(args).filter(([field]) => !without.includes(field));
    return (
      <>
        {aboveOf(name, description).map((text) => (
          <p key={text} className="note">
            {text}
          </p>
        ))}
        {main}
        {fields.length > 0 && <Fields values={fields} />}
      </>
    );
  };
  if (name === "execute" && typeof command === "string")
    return rest(["command"], <Code code={visible(command)} language="bash" label="The command" />);
  if (name === "execute_code" && typeof code === "string")
    return rest(["code", "language"], <Code code={visible(code)} language={String(language)} label="The code" />);
  if (name === "write_file" && typeof content === "string") {
    const written = languageOf(String(args["file_path"]));
    return rest(["content", "file_path"], <Code code={visible(content)} language={written} label="The content" />);
  }
  if (name === "edit_file" && typeof before === "string" && typeof after === "string")
    return rest(["file_path", "old_string", "new_string"], <Diff before={before} after={after} />);
  if (name === "delete") return rest(["path", "file_path"]);
  // The server wrote the description and made every character of it visible.
  return <Code code={description} label="The call" />;
}

/** What the description says above the call: why a person is asked, and which tools of servers the call may use. */
function aboveOf(name: string, description: string): string[] {
  const end = `\n\n${description}`.indexOf(`\n\n${visible(name)}\n\n`);
  return end > 0 ? description.slice(0, end - 2).split("\n\n") : [];
}

/** Tool -> the question about a call, and the name of a call. */
const TOOLS: Record<string, [question: string, noun: string]> = {
  execute: ["Run this command?", "command"],
  execute_code: ["Run this code?", "run of code"],
  edit_file: ["Change this file?", "change of a file"],
  write_file: ["Write this file?", "written file"],
  delete: ["Delete this?", "deletion"],
};

/** Whether a rule can be about calls of a tool. */
export const canHaveRules = (tool: string): boolean => tool in TOOLS || tool.startsWith("mcp:");

/** The name of a call of a tool, such as "command". */
export const nounOf = (tool: string): string => TOOLS[tool]?.[1] ?? `call of ${visible(tool)}`;

/** The question that a call's card asks, and the path that the call is about. */
export function headingOf({ name, args, effect }: Request): { question: string; path: string } {
  if (effect) return { question: `This ${nounOf(name)} has ended. Keep what it did?`, path: "" };
  const question = TOOLS[name]?.[0];
  if (question && name !== "execute_code") return { question, path: visible(String(args["file_path"] ?? args["path"] ?? "")) };
  if (name !== "execute_code") return { question: `Call ${visible(name)}?`, path: "" };
  return { question: `Run this ${args["language"] === "bash" ? "Bash" : "Python"} code?`, path: "" };
}
