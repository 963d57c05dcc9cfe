import { useCallback, useEffect, useRef, useState } from "react";
import { list, type Entry } from "./api";
import { below, WORKSPACE } from "./names";

export interface Folder {
  entries: Entry[];
  truncated: boolean;
  /** Why it cannot be shown. */
  problem: string | null;
}

export interface Row {
  path: string;
  entry: Entry;
  /** 1 for what is in the workspace itself. */
  level: number;
  open: boolean;
  folder: boolean;
}

/** What is shown of the workspace: folders that were opened, and what is in them. */
export function useFolders(thread: string, refreshKey: unknown) {
  const [folders, setFolders] = useState<ReadonlyMap<string, Folder>>(new Map());
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set([WORKSPACE]));
  const wanted = useRef(open);
  wanted.current = open;

  const load = useCallback(
    async (path: string) => {
      let found: Folder;
      try {
        found = { ...(await list(thread, path)), problem: null };
      } catch (error) {
        found = { entries: [], truncated: false, problem: (error as Error).message };
      }
      setFolders((before) => new Map(before).set(path, found));
    },
    [thread],
  );
  const reload = useCallback(() => Promise.all([...wanted.current].map(load)), [load]);
  useEffect(() => void reload(), [reload, refreshKey]);

  const toggle = (path: string, show: boolean) => {
    if (show && !open.has(path)) void load(path);
    setOpen((before) => {
      const after = new Set(before);
      if (show) after.add(path);
      else after.delete(path);
      return after;
    });
  };
  return { folders, open, toggle, reload, rows: rowsOf(folders, open, WORKSPACE, 1) };
}

/** Whether an entry has others in it. */
export const isFolder = (entry: Entry): boolean => entry.kind === "folder" || entry.leads_to === "folder";

function rowsOf(folders: ReadonlyMap<string, Folder>, open: ReadonlySet<string>, path: string, level: number): Row[] {
  // Links may lead in a circle.
  if (level > 20) return [];
  return (folders.get(path)?.entries ?? []).flatMap((entry) => {
    const here = below(path, entry.name);
    const folder = isFolder(entry);
    const shown = folder && open.has(here);
    const row: Row = { path: here, entry, level, folder, open: shown };
    return shown ? [row, ...rowsOf(folders, open, here, level + 1)] : [row];
  });
}
