import { useEffect, useState } from "react";
import type { Listings } from "../../files/listings";
import { WORKSPACE } from "../../files/names";
import { useChat } from "../stream/ChatContext";
import { isImage } from "./images";
import { Picture } from "./Picture";

interface PlotsProps {
  paths: readonly string[];
  thread: string;
  /** The id of the message that names them. */
  version: string;
  /** Where the images come from. */
  origin?: string;
}

/** Images below a message. An image that does not exist is left out. */
export const Plots = ({ paths, origin, ...rest }: PlotsProps) => (
  <div className="plots stack">
    {paths.map((path) => (
      <Picture
        key={`${rest.version} ${path}`}
        path={path}
        alt={`The picture ${nameOf(path)}, ${origin ?? "made by the agent"}`}
        caption={origin ? `${path}, ${origin}` : path}
        {...rest}
      />
    ))}
  </div>
);

const nameOf = (path: string) => path.split("/").pop()!;

/** Limits of the search below /results. */
const MOST_FOLDERS = 20;
const MOST_PICTURES = 12;

interface TurnPlotsProps extends PlotsProps {
  /** The calls, outputs and replies of the turn. */
  said: string;
}

/**
 * The images that are new below /results since the last turn began, except `paths`, which are shown already.
 *
 * Other chats and programs may use the same workspace. So only an image that the turn names counts as made by the agent.
 */
export function TurnPlots({ paths, thread, version, said }: TurnPlotsProps) {
  const [made, setMade] = useState<readonly string[]>([]);
  const { stream, listings } = useChat();
  const { client } = stream;
  useEffect(() => {
    if (!listings) return;
    let ended = false;
    const look = async () => {
      // The server and its files use the same clock.
      const [began] = await client.threads.getHistory(thread, { limit: 1, metadata: { source: "input" } });
      if (!began?.created_at) return;
      const found = await picturesSince(listings, Date.parse(began.created_at) / 1000);
      if (!ended) setMade(found);
    };
    look().catch(() => undefined); // The file panel shows the error.
    return () => {
      ended = true;
    };
  }, [client, listings, thread, version]);
  const more = made.filter((path) => !paths.includes(path)).slice(0, MOST_PICTURES);
  if (more.length === 0) return null;
  const own = more.filter((path) => said.includes(nameOf(path)));
  const others = more.filter((path) => !own.includes(path));
  return (
    <>
      <Plots paths={own} thread={thread} version={version} />
      <Plots paths={others} thread={thread} version={version} origin="new in the workspace" />
    </>
  );
}

async function picturesSince(listings: Listings, began: number): Promise<string[]> {
  const look = async (folder: string) => {
    const entries = (await listings.folder(`${WORKSPACE}${folder}`))?.entries ?? [];
    const pictures = entries.filter(({ kind, name, modified }) => kind === "file" && isImage(name) && modified >= began);
    return { entries, paths: pictures.map(({ name }) => `${folder}/${name}`) };
  };
  const { entries, paths } = await look("/results");
  const folders = entries.filter(({ kind }) => kind === "folder").slice(0, MOST_FOLDERS);
  const below = await Promise.all(folders.map(({ name }) => look(`/results/${name}`)));
  return [...paths, ...below.flatMap((each) => each.paths)];
}
