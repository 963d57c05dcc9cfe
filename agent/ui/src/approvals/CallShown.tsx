import { Code } from "../chat/Code";
import { languageOf } from "../text/highlight";
import { visible } from "../text/visible";
import { Diff } from "./Diff";
import type { Request } from "./question";

/** A call that waits, whole: its code, its change or its arguments. Nothing of it is left out or folded. */
export function CallShown({ request }: { request: Request }) {
  const { name, args } = request;
  if (name === "execute" && typeof args["command"] === "string") {
    return (
      <>
        <Code code={visible(args["command"])} language="bash" label="The command" />
        <Arguments args={args} without={["command"]} />
      </>
    );
  }
  if (name === "execute_code" && typeof args["code"] === "string") {
    return (
      <>
        <Code code={visible(args["code"])} language={String(args["language"] ?? "python")} label="The code" />
        <Arguments args={args} without={["code", "language"]} />
      </>
    );
  }
  if (name === "edit_file" && typeof args["old_string"] === "string" && typeof args["new_string"] === "string") {
    return (
      <>
        <Diff before={args["old_string"]} after={args["new_string"]} />
        <Arguments args={args} without={["file_path", "old_string", "new_string"]} />
      </>
    );
  }
  if (name === "write_file" && typeof args["content"] === "string") {
    return (
      <>
        <Code code={visible(args["content"])} language={languageOf(String(args["file_path"]))} label="The content" />
        <Arguments args={args} without={["file_path", "content"]} />
      </>
    );
  }
  if (name === "delete") return <Arguments args={args} without={["path", "file_path"]} />;
  // As the server has written it, every character visible.
  return <Code code={request.description} label="The call" />;
}

/** What a call does, in a word, and to what. */
export function headingOf({ name, args }: Request): { verb: string; what: string } {
  const path = visible(String(args["file_path"] ?? args["path"] ?? ""));
  switch (name) {
    case "execute":
      return { verb: "Run this command?", what: "" };
    case "execute_code":
      return { verb: `Run this ${args["language"] === "bash" ? "Bash" : "Python"} code?`, what: "" };
    case "edit_file":
      return { verb: "Change this file?", what: path };
    case "write_file":
      return { verb: "Write this file?", what: path };
    case "delete":
      return { verb: "Delete this?", what: path };
    default:
      return { verb: `Call ${visible(name)}?`, what: "" };
  }
}

function Arguments({ args, without }: { args: Record<string, unknown>; without: readonly string[] }) {
  const rest = Object.entries(args).filter(([name]) => !without.includes(name));
  if (rest.length === 0) return null;
  return (
    <dl className="arguments">
      {rest.map(([name, value]) => (
        <div key={name}>
          <dt>{visible(name)}</dt>
          <dd>
            <pre>{visible(typeof value === "string" ? value : JSON.stringify(value))}</pre>
          </dd>
        </div>
      ))}
    </dl>
  );
}
