import { harmless, visible } from "../text/visible";
import type { Call } from "./conversation";
import { Icon } from "./Icon";
import { StateIcon, type RunState } from "./RunCard";

const DONE: Record<string, [string, string]> = {
  read_file: ["Read", "file_path"],
  write_file: ["Wrote", "file_path"],
  edit_file: ["Changed", "file_path"],
  delete: ["Deleted", "path"],
  ls: ["Looked into", "path"],
  glob: ["Looked for", "pattern"],
  grep: ["Searched for", "pattern"],
};

/** A call of a tool other than a command: one line, which opens. */
export function ToolCard({ call, state }: { call: Call; state: RunState }) {
  const [verb, argument] = DONE[call.name] ?? [call.name, ""];
  const about = call.args[argument] ?? call.args["file_path"] ?? call.args["path"];
  return (
    <details className={`card tool ${state}`}>
      <summary>
        {state === "done" ? <Icon name="tool" /> : <StateIcon state={state} />}
        <span className="card-title">
          {verb} {typeof about === "string" && <code>{visible(about)}</code>}
        </span>
        {state === "refused" && <span className="pill bad">rejected</span>}
        {state === "failed" && <span className="pill bad">failed</span>}
      </summary>
      <dl className="arguments">
        {Object.entries(call.args).map(([name, value]) => (
          <div key={name}>
            <dt>{visible(name)}</dt>
            <dd>
              <pre>{visible(typeof value === "string" ? value : JSON.stringify(value, null, 2))}</pre>
            </dd>
          </div>
        ))}
        {call.result && (
          <div>
            <dt>result</dt>
            <dd>
              <pre>{harmless(call.result.text)}</pre>
            </dd>
          </div>
        )}
      </dl>
    </details>
  );
}
