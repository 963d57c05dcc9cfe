import { useState } from "react";
import { imageUrl } from "./images";

interface PlotsProps {
  paths: readonly string[];
  thread: string;
  /** The message that they belong to. */
  version: string;
}

/** Pictures, below what they belong to. One that is not there is not shown. */
export function Plots({ paths, thread, version }: PlotsProps) {
  return (
    <div className="plots">
      {paths.map((path) => (
        <Plot key={`${version} ${path}`} path={path} thread={thread} version={version} />
      ))}
    </div>
  );
}

function Plot({ path, thread, version }: { path: string; thread: string; version: string }) {
  const [state, setState] = useState<"shown" | "missing" | "failed">("shown");
  const [tries, setTries] = useState(0);
  const url = imageUrl(path, thread, tries ? `${version}.${tries}` : version);
  if (!url || state === "missing") return null;
  const name = path.split("/").pop() ?? path;
  const failed = () => {
    setState("failed");
    // A picture that was only named is no failure.
    void fetch(url, { method: "HEAD" }).then(
      ({ status }) => status === 404 && setState("missing"),
      () => undefined,
    );
  };
  const again = () => {
    setTries(tries + 1);
    setState("shown");
  };
  return (
    <figure>
      {state === "failed" ? (
        <p className="note">
          The picture could not be loaded.{" "}
          <button type="button" onClick={again}>
            Try again
          </button>
        </p>
      ) : (
        <img src={url} alt={`The picture ${name}, made by the agent`} onError={failed} />
      )}
      <figcaption>{path}</figcaption>
    </figure>
  );
}
