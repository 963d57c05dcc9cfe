import { useEffect, useState } from "react";
import type { Entry } from "./api";
import { isFolder, Listings } from "./listings";
import { below, WORKSPACE } from "./names";

export interface Folder {
  entries: Entry[];
  truncated: boolean;
  /** Why the folder cannot be shown. */
  problem: string | null;
}

export interface Row {
  path: string;
  entry: Entry;
  /** Depth: 1 for entries of the workspace itself. */
  level: number;
  open: boolean;
  folder: boolean;
}

/** The folders of the last load, and the values of `refreshKey` and `asked` of that load. */
export interface Loaded {
  folders: ReadonlyMap<string, Folder>;
  refreshKey: number;
  asked: number;
}

/**
 * Loads the open folders of the workspace, and the folder `also`.
 *
 * Loads them again when `refreshKey` changes, because files may have changed, or when `asked` changes, because a person
 * pressed Refresh.
 */
export function useFolders(thread: string, also: string, refreshKey: number, asked: number) {
  const [loaded, setLoaded] = useState<Loaded>({ folders: new Map(), refreshKey: -1, asked: -1 });
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set([WORKSPACE]));
  const wanted = [...new Set([...open, also])].join("\0");
  useEffect(() => {
    let ended = false;
    const listings = new Listings(thread);
    const load = async (path: string) => [path, await folderAt(listings, path)] as const;
    void Promise.all(wanted.split("\0").map(load)).then((found) => {
      if (!ended) setLoaded({ folders: new Map(found), refreshKey, asked });
    });
    return () => {
      ended = true;
    };
  }, [thread, wanted, refreshKey, asked]);

  const toggle = (path: string, show: boolean) =>
    setOpen((before) => {
      const others = [...before].filter((each) => each !== path);
      return new Set(show ? [...others, path] : others);
    });
  return { loaded, toggle, rows: rowsOf(loaded.folders, open, WORKSPACE, 1) };
}

function folderAt(listings: Listings, path: string): Promise<Folder> {
  return listings.folder(path).then(
    (listing) =>
      listing
        ? { ...listing, problem: null }
        : { entries: [], truncated: false, problem: "The folder is not there any more." },
    (error: Error) => ({ entries: [], truncated: false, problem: error.message }),
  );
}

function rowsOf(folders: ReadonlyMap<string, Folder>, open: ReadonlySet<string>, path: string, level: number): Row[] {
  // Links may form a cycle.
  if (level > 20) return [];
  return (folders.get(path)?.entries ?? []).flatMap((entry) => {
    const here = below(path, entry.name);
    const folder = isFolder(entry);
    const shown = folder && open.has(here);
    const row: Row = { path: here, entry, level, folder, open: shown };
    return shown ? [row, ...rowsOf(folders, open, here, level + 1)] : [row];
  });
}
