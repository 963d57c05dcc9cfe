import { useEffect, useRef, useState, type DragEvent } from "react";
import { Icon } from "../chat/Icon";
import { harmless } from "../text/visible";
import { folderOf, WORKSPACE } from "./names";
import { Failed, Loading, Preview } from "./Preview";
import { Tree } from "./Tree";
import { useFolders, type Row } from "./useFolders";
import { dropped, useUpload, type Sent } from "./useUpload";
import "../styles/files.css";

export interface FilePanelProps {
  threadId: string | null;
  /** Makes a thread where there is none yet, and opens it. */
  onNeedThread: () => Promise<string>;
  /** Changes when files may have changed. */
  refreshKey: number;
}

/** The files of the workspace: what is there, what is in it, and a way in and out. */
export function FilePanel({ threadId, onNeedThread, refreshKey }: FilePanelProps) {
  const [target, setTarget] = useState<string | null>(null);
  const [arrived, setArrived] = useState<{ path: string | null; count: number }>({ path: null, count: 0 });
  const [over, setOver] = useState(false);
  const [note, setNote] = useState<string | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const { sent, send, forget } = useUpload(onNeedThread, (path) =>
    setArrived((before) => ({ path, count: before.count + 1 })),
  );

  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const { files, folders } = dropped(event.dataTransfer);
    setNote(folders ? "A folder cannot be sent as it is: drop the files in it." : null);
    const row = (event.target as Element).closest<HTMLElement>("[data-folder]");
    if (files.length) void send(files, row?.dataset.folder ?? target);
  };
  const drag = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    setOver(true);
  };
  const leave = (event: DragEvent) => {
    if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
  };
  return (
    <div className={`file-panel ${over ? "over" : ""}`} onDragOver={drag} onDragLeave={leave} onDrop={drop}>
      <div className="file-head">
        <h2>Files</h2>
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          aria-hidden="true"
          tabIndex={-1}
          onChange={(event) => {
            const files = [...(event.target.files ?? [])];
            event.target.value = "";
            setNote(null);
            if (files.length) void send(files, target);
          }}
        />
        <button type="button" onClick={() => chooser.current?.click()}>
          Upload
        </button>
      </div>
      <p className="note drop">
        Drop files here to put them into {target ? <code>{harmless(target)}</code> : "the workspace"}.
      </p>
      {note && <p className="note">{note}</p>}
      <Sending sent={sent} onForget={forget} />
      {threadId ? (
        <Workspace
          key={threadId}
          thread={threadId}
          version={`${refreshKey} ${arrived.count}`}
          arrived={arrived.path}
          onTarget={setTarget}
        />
      ) : (
        <p className="note">What is in the workspace is shown here as soon as the chat has begun.</p>
      )}
    </div>
  );
}

interface WorkspaceProps {
  thread: string;
  version: string;
  /** The file that was sent last. */
  arrived: string | null;
  onTarget: (folder: string | null) => void;
}

function Workspace({ thread, version, arrived, onTarget }: WorkspaceProps) {
  const [asked, setAsked] = useState(0);
  const key = `${version} ${asked}`;
  const { folders, rows, toggle } = useFolders(thread, key);
  const [selected, setSelected] = useState<{ path: string; folder: boolean } | null>(null);
  const before = useRef(arrived);
  useEffect(() => {
    if (!arrived || arrived === before.current) return;
    before.current = arrived;
    setSelected({ path: arrived, folder: false });
    toggle(folderOf(arrived), true);
  });
  const select = (row: Row) => {
    setSelected({ path: row.path, folder: row.folder });
    onTarget(row.folder ? row.path : folderOf(row.path));
  };
  const root = folders.get(WORKSPACE);
  // A file that is as it was is not read again: a page of a PDF file takes a while.
  const shown = selected && rows.find((row) => row.path === selected.path)?.entry;
  const state = shown?.kind === "file" ? `${shown.modified} ${shown.bytes}` : key;
  return (
    <>
      <div className="file-list">
        {!root && <Loading />}
        {root?.problem && <Failed problem={root.problem} />}
        {root && !root.problem && rows.length === 0 && <p className="note">The workspace is empty.</p>}
        {rows.length > 0 && (
          <Tree rows={rows} folders={folders} selected={selected?.path ?? null} onSelect={select} onToggle={toggle} />
        )}
        {root?.truncated && <p className="note">Only the first {root.entries.length} are shown.</p>}
        <button type="button" className="quiet refresh" onClick={() => setAsked(asked + 1)}>
          Refresh
        </button>
      </div>
      {selected && !selected.folder && (
        <Preview
          key={selected.path}
          thread={thread}
          path={selected.path}
          version={`${asked} ${state}`}
          onClose={() => setSelected(null)}
        />
      )}
    </>
  );
}

function Sending({ sent, onForget }: { sent: readonly Sent[]; onForget: () => void }) {
  const done = sent.every((each) => each.state !== "sending");
  return (
    <div role="status" className="sending">
      {sent.map((each, index) => (
        <p key={index} className={each.state}>
          <strong>{each.name}</strong> {each.told}
        </p>
      ))}
      {sent.length > 0 && done && (
        <button type="button" className="quiet" aria-label="Close what is said of the files sent" onClick={onForget}>
          <Icon name="cross" />
        </button>
      )}
    </div>
  );
}
