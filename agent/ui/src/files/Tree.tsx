import { useRef, useState, type CSSProperties, type KeyboardEvent } from "react";
import { Icon } from "../components/Icon";
import { harmless } from "../text/visible";
import { folderOf, sizeOf } from "./names";
import type { Folder, Row } from "./useFolders";

interface TreeProps {
  rows: readonly Row[];
  folders: ReadonlyMap<string, Folder>;
  selected: string | null;
  onSelect: (row: Row) => void;
  onToggle: (path: string, open: boolean) => void;
}

/** Folders and files as a tree. Arrow keys move through it. */
export function Tree({ rows, folders, selected, onSelect, onToggle }: TreeProps) {
  const [current, setCurrent] = useState<string | null>(null);
  const tree = useRef<HTMLUListElement>(null);
  const at = Math.max(0, rows.findIndex((row) => row.path === (current ?? selected)));

  const go = (index: number) => {
    const row = rows[index];
    if (!row) return;
    setCurrent(row.path);
    (tree.current?.children[index] as HTMLElement | undefined)?.focus();
  };
  const choose = (row: Row) => {
    setCurrent(row.path);
    if (row.folder) onToggle(row.path, !row.open);
    onSelect(row);
  };
  const press = (event: KeyboardEvent) => {
    const row = rows[at];
    if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowDown") go(at + 1);
    else if (event.key === "ArrowUp") go(at - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(rows.length - 1);
    else if (event.key === "ArrowRight" && row.folder) row.open ? go(at + 1) : onToggle(row.path, true);
    else if (event.key === "ArrowLeft" && row.open) onToggle(row.path, false);
    else if (event.key === "ArrowLeft") go(rows.findIndex((each) => each.path === folderOf(row.path)));
    else if (event.key === "Enter" || event.key === " ") choose(row);
    else return;
    event.preventDefault();
  };
  return (
    <ul className="tree" role="tree" aria-label="Files of the workspace" ref={tree} onKeyDown={press}>
      {rows.map((row, index) => (
        <li
          key={row.path}
          role="treeitem"
          aria-level={row.level}
          aria-selected={row.path === selected}
          aria-expanded={row.folder ? row.open : undefined}
          tabIndex={index === at ? 0 : -1}
          data-folder={row.folder ? row.path : folderOf(row.path)}
          className="bar"
          style={{ "--level": row.level } as CSSProperties}
          onClick={() => choose(row)}
        >
          <Icon name="chevron" />
          <span className="grow">{harmless(row.entry.name)}</span>
          <span className="note">{noteOf(row, folders.get(row.path))}</span>
        </li>
      ))}
    </ul>
  );
}

/** The note beside a name: its size or state. */
function noteOf(row: Row, folder: Folder | undefined): string {
  if (row.folder) {
    if (!row.open) return row.entry.kind === "link" ? "link" : "";
    if (!folder) return "loading …";
    if (folder.problem) return folder.problem;
    if (folder.truncated) return `the first ${folder.entries.length}`;
    return folder.entries.length ? "" : "empty";
  }
  if (row.entry.kind === "link") return row.entry.leads_to === "file" ? "link" : "link to nothing";
  return row.entry.kind === "other" ? "not a file" : sizeOf(row.entry.bytes);
}
