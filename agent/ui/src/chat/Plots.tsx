import { useState } from "react";
import { imageUrl } from "./images";

/** The pictures that an answer names, below it. One that is not there is not shown. */
export function Plots({ paths, thread }: { paths: readonly string[]; thread: string }) {
  return (
    <div className="plots">
      {paths.map((path) => (
        <Plot key={path} path={path} thread={thread} />
      ))}
    </div>
  );
}

function Plot({ path, thread }: { path: string; thread: string }) {
  const [missing, setMissing] = useState(false);
  const url = imageUrl(path, thread);
  if (!url || missing) return null;
  const name = path.split("/").pop() ?? path;
  return (
    <figure>
      <img src={url} alt={`The picture ${name}, made by the agent`} onError={() => setMissing(true)} />
      <figcaption>{path}</figcaption>
    </figure>
  );
}
