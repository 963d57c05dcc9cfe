import type { AnyStream } from "@langchain/react";
import { useEffect, useState } from "react";
import { list, type Entry } from "../files/api";
import { isImage } from "./images";
import { Plots } from "./Plots";

/** How many folders below /results are looked into, and how many pictures are shown. */
const MOST_FOLDERS = 20;
const MOST_PICTURES = 12;

interface TurnPlotsProps {
  stream: AnyStream;
  thread: string;
  /** The last message of the turn. */
  version: string;
  /** Those that are shown already. */
  without: readonly string[];
}

/** The pictures that the last turn has made or changed below /results, whether or not its answer names them. */
export function TurnPlots({ stream, thread, version, without }: TurnPlotsProps) {
  const [paths, setPaths] = useState<readonly string[]>([]);
  const { client } = stream;
  useEffect(() => {
    let ended = false;
    const look = async () => {
      // The server's clock and that of its files are one.
      const [began] = await client.threads.getHistory(thread, { limit: 1, metadata: { source: "input" } });
      if (!began?.created_at) return;
      const found = await picturesSince(thread, Date.parse(began.created_at) / 1000);
      if (!ended) setPaths(found);
    };
    look().catch(() => undefined); // the file panel has them, and says what is wrong
    return () => {
      ended = true;
    };
  }, [client, thread, version]);
  const more = paths.filter((path) => !without.includes(path)).slice(0, MOST_PICTURES);
  return more.length > 0 ? <Plots paths={more} thread={thread} version={version} /> : null;
}

async function picturesSince(thread: string, began: number): Promise<string[]> {
  const pictures = (folder: string, entries: readonly Entry[]) =>
    entries
      .filter(({ kind, name, modified }) => kind === "file" && isImage(name) && modified >= began)
      .map(({ name }) => `${folder}/${name}`);
  const { entries } = await list(thread, "/results");
  const folders = entries.filter(({ kind }) => kind === "folder").slice(0, MOST_FOLDERS);
  const below = await Promise.all(
    folders.map(async ({ name }) => pictures(`/results/${name}`, (await list(thread, `/results/${name}`)).entries)),
  );
  return [...pictures("/results", entries), ...below.flat()];
}
