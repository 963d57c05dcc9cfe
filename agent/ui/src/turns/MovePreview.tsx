import { useId } from "react";
import { harmless } from "../text/visible";
import { Paths } from "./Paths";
import type { Move } from "./turnRoutes";

/** What going back would do to each file. */
export function MovePreview({ move }: { move: Move }) {
  const { created, changed, deleted, kept, note } = move;
  const count = created.length + changed.length + deleted.length;
  return (
    <div className="move stack" tabIndex={0} role="group" aria-label="What happens to the files">
      <p role="status">{count === 0 ? "No file changes." : `${count.toLocaleString("en")} ${count === 1 ? "file changes" : "files change"}:`}</p>
      {note && <p className="note">Note: {harmless(note)}.</p>}
      <Group name="Comes back" paths={created} />
      <Group name="Gets its earlier content" paths={changed} />
      <Group name="Is deleted" paths={deleted} />
      <Group name="Stays as it is" paths={Object.keys(kept)} reasons={kept} />
    </div>
  );
}

interface GroupProps {
  name: string;
  paths: readonly string[];
  reasons?: Record<string, string>;
}

function Group({ name, paths, reasons }: GroupProps) {
  const id = useId();
  if (paths.length === 0) return null;
  return (
    <section>
      <h3 id={id}>
        {name} <span className="pill">{paths.length.toLocaleString("en")}</span>
      </h3>
      <ul aria-labelledby={id}>
        <Paths paths={paths}>
          {(path) => (
            <>
              <code>{harmless(path)}</code>
              {reasons && <span className="note">: {harmless(reasons[path] ?? "")}</span>}
            </>
          )}
        </Paths>
      </ul>
    </section>
  );
}
