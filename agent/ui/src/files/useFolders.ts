import { useCallback, useEffect, useRef, useState } from "react";
import { list, type Entry } from "./api";
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

/** The open folders of the workspace and their entries. */
export function useFolders(thread: string, refreshKey: unknown) {
  const [folders, setFolders] = useState<ReadonlyMap<string, Folder>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set([WORKSPACE]));
  const wanted = useRef(open);
  wanted.current = open;

  const load = useCallback(
    async (path: string) => {
      const found = await list(thread, path).then(
        (listing): Folder => ({ ...listing, problem: null }),
        (error: Error): Folder => ({ entries: [], truncated: false, problem: error.message }),
      );
      setFolders((before) => new Map(before).set(path, found));
    },
    [thread],
  );
  useEffect(() => wanted.current.forEach((path) => void load(path)), [load, refreshKey]);

  const toggle = (path: string, show: boolean) => {
    if (show && !open.has(path)) void load(path);
    setOpen((before) => {
      const others = [...before].filter((each) => each !== path);
      return new Set(show ? [...others, path] : others);
    });
  };
  return { folders, toggle, rows: rowsOf(folders, open, WORKSPACE, 1) };
}

function rowsOf(folders: ReadonlyMap<string, Folder>, open: ReadonlySet<string>, path: string, level: number): Row[] {
  // Links may form a cycle.
  if (level > 20) return [];
  return (folders.get(path)?.entries ?? []).flatMap((entry) => {
    const here = below(path, entry.name);
    const folder = entry.kind === "folder" || entry.leads_to === "folder";
    const shown = folder && open.has(here);
    const row: Row = { path: here, entry, level, folder, open: shown };
    return shown ? [row, ...rowsOf(folders, open, here, level + 1)] : [row];
  });
}
