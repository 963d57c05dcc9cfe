import { useEffect, useState } from "react";
import { list } from "../../files/api";
import { useChat } from "../stream/ChatContext";
import { imageUrl, isImage } from "./images";

interface PlotsProps {
  paths: readonly string[];
  thread: string;
  /** The id of the message that names them. */
  version: string;
}

/** Images below a message. An image that does not exist is left out. */
export const Plots = ({ paths, ...rest }: PlotsProps) => (
  <div className="plots stack">
    {paths.map((path) => (
      <Plot key={`${rest.version} ${path}`} path={path} {...rest} />
    ))}
  </div>
);

function Plot({ path, thread, version }: { path: string; thread: string; version: string }) {
  const [state, setState] = useState<"shown" | "missing" | "failed">("shown");
  const [tries, setTries] = useState(0);
  const url = imageUrl(path, thread, tries ? `${version}.${tries}` : version);
  if (!url || state === "missing") return null;
  const failed = async () => {
    setState("failed");
    // A message may name an image that does not exist.
    const { status } = await fetch(url, { method: "HEAD" }).catch(() => ({ status: 0 }));
    if (status === 404) setState("missing");
  };
  const again = () => {
    setTries(tries + 1);
    setState("shown");
  };
  const alt = `The picture ${path.split("/").pop()}, made by the agent`;
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
        <img className="picture box" src={url} alt={alt} onError={() => void failed()} />
      )}
      <figcaption>{path}</figcaption>
    </figure>
  );
}

/** Limits of the search below /results. */
const MOST_FOLDERS = 20;
const MOST_PICTURES = 12;

/** The images that the last turn made or changed below /results, except `paths`, which are shown already. */
export function TurnPlots({ paths, thread, version }: PlotsProps) {
  const [made, setMade] = useState<readonly string[]>([]);
  const { client } = useChat().stream;
  useEffect(() => {
    let ended = false;
    const look = async () => {
      // The server and its files use the same clock.
      const [began] = await client.threads.getHistory(thread, { limit: 1, metadata: { source: "input" } });
      if (!began?.created_at) return;
      const found = await picturesSince(thread, Date.parse(began.created_at) / 1000);
      if (!ended) setMade(found);
    };
    look().catch(() => undefined); // The file panel shows the error.
    return () => {
      ended = true;
    };
  }, [client, thread, version]);
  const more = made.filter((path) => !paths.includes(path)).slice(0, MOST_PICTURES);
  return more.length > 0 && <Plots paths={more} thread={thread} version={version} />;
}

async function picturesSince(thread: string, began: number): Promise<string[]> {
  const look = async (folder: string) => {
    const { entries } = await list(thread, folder);
    const pictures = entries.filter(({ kind, name, modified }) => kind === "file" && isImage(name) && modified >= began);
    return { entries, paths: pictures.map(({ name }) => `${folder}/${name}`) };
  };
  const { entries, paths } = await look("/results");
  const folders = entries.filter(({ kind }) => kind === "folder").slice(0, MOST_FOLDERS);
  const below = await Promise.all(folders.map(({ name }) => look(`/results/${name}`)));
  return [...paths, ...below.flatMap((each) => each.paths)];
}
