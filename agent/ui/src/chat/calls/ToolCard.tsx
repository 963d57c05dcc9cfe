import { argumentFields, Fields } from "../../components/Fields";
import { Icon } from "../../components/Icon";
import { harmless, visible } from "../../text/visible";
import type { Call } from "../stream/itemsOf";
import { EDITED, StateIcon, type RunState } from "./RunCard";

/** The heading of a call, by tool: a verb, and the argument that names the object. */
const HEADINGS: Record<string, [verb: string, argument: string]> = {
  read_file: ["Read", "file_path"],
  write_file: ["Wrote", "file_path"],
  edit_file: ["Changed", "file_path"],
  delete: ["Deleted", "path"],
  ls: ["Looked into", "path"],
  glob: ["Looked for", "pattern"],
  grep: ["Searched for", "pattern"],
};

/** A call of a tool that runs no code: one line, which opens. */
export function ToolCard({ call, state }: { call: Call; state: RunState }) {
  const [verb, argument] = HEADINGS[call.name] ?? [call.name, ""];
  const object = call.args[argument] ?? call.args["file_path"] ?? call.args["path"];
  const values = argumentFields(call.args);
  if (call.result) values.push(["result", harmless(call.result.text)]);
  return (
    <details className={`card tool ${state}`}>
      <summary className="bar">
        {state === "done" ? <Icon name="tool" /> : <StateIcon state={state} />}
        <span className="card-title cut grow">
          {verb} {typeof object === "string" && <code>{visible(object)}</code>}
        </span>
        {state === "refused" && <span className="pill bad">rejected</span>}
        {state === "failed" && <span className="pill bad">failed</span>}
      </summary>
      {call.edited && <p className="note">{EDITED}</p>}
      <Fields values={values} />
    </details>
  );
}
