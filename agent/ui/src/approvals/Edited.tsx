import { useState } from "react";
import { visible } from "../text/visible";
import type { Request } from "./question";

interface EditedProps {
  request: Request;
  onRun: (args: Record<string, unknown>) => void;
  onCancel: () => void;
}

/** The call's arguments, to be changed before it runs. Text only: other values stay as they are. */
export function Edited({ request, onRun, onCancel }: EditedProps) {
  const [args, setArgs] = useState(request.args);
  return (
    <form
      className="edited"
      onSubmit={(event) => {
        event.preventDefault();
        onRun(args);
      }}
    >
      {Object.entries(args).map(([name, value]) =>
        typeof value === "string" ? (
          <label key={name}>
            {visible(name)}
            <textarea
              rows={Math.min(14, value.split("\n").length + 1)}
              spellCheck={false}
              value={value}
              onChange={(event) => setArgs({ ...args, [name]: event.target.value })}
            />
          </label>
        ) : (
          <p key={name} className="note">
            {visible(name)}: {visible(JSON.stringify(value))}
          </p>
        ),
      )}
      <div className="answers">
        <button type="submit" className="primary">
          Run as changed
        </button>
        <button type="button" onClick={onCancel}>
          Back
        </button>
      </div>
    </form>
  );
}
