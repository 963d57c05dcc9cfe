import { useEffect, useRef, useState, type DragEvent } from "react";
import type { PageConfig } from "../api/config";
import { IconButton } from "../components/Icon";
import { Alert, Loading } from "../components/Notice";
import { harmless } from "../text/visible";
import { entryAt } from "./listings";
import { folderOf, WORKSPACE } from "./names";
import { Preview, type FileState } from "./Preview";
import { Tree } from "./Tree";
import { useFolders, type Loaded, type Row } from "./useFolders";
import { useUpload } from "./useUpload";

interface FilePanelProps {
  config: PageConfig;
  threadId: string | null;
  /** Returns the thread of the chat; creates and opens one for a new chat. */
  onNeedThread: () => Promise<string>;
  onClose: () => void;
  /** Changes when files may have changed. */
  refreshKey: number;
}

/** The files of the workspace, with previews, uploads and downloads. */
export function FilePanel({ config, threadId, onNeedThread, onClose, refreshKey }: FilePanelProps) {
  const [target, setTarget] = useState<string | null>(null);
  const [over, setOver] = useState(false);
  const [note, setNote] = useState("");
  const chooser = useRef<HTMLInputElement>(null);
  const { uploads, uploaded, send } = useUpload(config, onNeedThread);

  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const items = [...event.dataTransfer.items].filter((each) => each.kind === "file");
    const plain = items.filter((each) => !each.webkitGetAsEntry()?.isDirectory);
    setNote(plain.length < items.length ? "Folders cannot be uploaded. Drop the files of the folder instead." : "");
    const row = (event.target as Element).closest<HTMLElement>("[data-folder]");
    void send(plain.map((each) => each.getAsFile()!), row?.dataset.folder ?? target);
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
    <div className={`file-panel stack ${over ? "over" : ""}`} onDragOver={drag} onDragLeave={leave} onDrop={drop}>
      <div className="bar">
        <h2 className="grow">Files</h2>
        <input
          ref={chooser}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            void send([...(event.target.files ?? [])], target);
            event.target.value = "";
          }}
        />
        <button type="button" onClick={() => chooser.current?.click()}>
          Upload
        </button>
        <IconButton icon="cross" aria-label="Back to the chat" title="Back to the chat" onClick={onClose} />
      </div>
      <p className="note">
        Drop files here to put them into {target ? <code>{harmless(target)}</code> : "the workspace"}.
      </p>
      {note && <p className="note">{note}</p>}
      <div role="status" className="sending note">
        {uploads.map((each, index) => (
          <p key={index} className={each.state}>
            <strong>{each.name}</strong> {each.message}
          </p>
        ))}
      </div>
      {threadId ? (
        <Workspace key={threadId} thread={threadId} refreshKey={refreshKey} uploaded={uploaded} onTarget={setTarget} />
      ) : (
        <p className="note">The files of the workspace are shown here as soon as the chat has begun.</p>
      )}
    </div>
  );
}

interface WorkspaceProps {
  thread: string;
  refreshKey: number;
  /** The file that was uploaded last. */
  uploaded: { path: string } | null;
  onTarget: (folder: string | null) => void;
}

function Workspace({ thread, refreshKey, uploaded, onTarget }: WorkspaceProps) {
  const [asked, setAsked] = useState(0);
  const [selected, setSelected] = useState<{ path: string; folder: boolean } | null>(null);
  const file = selected && !selected.folder ? selected.path : null;
  const { loaded, rows, toggle } = useFolders(thread, file ? folderOf(file) : WORKSPACE, refreshKey, asked);
  const before = useRef(uploaded);
  useEffect(() => {
    if (!uploaded || uploaded === before.current) return;
    before.current = uploaded;
    setSelected({ path: uploaded.path, folder: false });
    toggle(folderOf(uploaded.path), true);
    setAsked(asked + 1);
  });
  const select = (row: Row) => {
    setSelected({ path: row.path, folder: row.folder });
    onTarget(row.folder ? row.path : folderOf(row.path));
  };
  const root = loaded.folders.get(WORKSPACE);
  return (
    <>
      {!root && <Loading />}
      {root?.problem && <Alert>{root.problem}</Alert>}
      {root && !root.problem && rows.length === 0 && <p className="note">The workspace is empty.</p>}
      {rows.length > 0 && (
        <Tree rows={rows} folders={loaded.folders} selected={selected?.path ?? null} onSelect={select} onToggle={toggle} />
      )}
      {root?.truncated && <p className="note">Only the first {root.entries.length} are shown.</p>}
      <button type="button" className="quiet refresh" onClick={() => setAsked(asked + 1)}>
        Refresh
      </button>
      {file && (
        <Preview
          key={file}
          thread={thread}
          path={file}
          state={stateOf(file, loaded, asked)}
          onClose={() => setSelected(null)}
        />
      )}
    </>
  );
}

/** The state of a file. An unchanged file keeps its version and is not loaded again: a PDF page takes a while. */
function stateOf(path: string, loaded: Loaded, asked: number): FileState {
  const folder = loaded.folders.get(folderOf(path));
  const entry = folder && entryAt(folder, path);
  if (entry?.kind === "file") return { version: `${loaded.asked} ${entry.modified} ${entry.bytes}` };
  if (entry || folder?.truncated) return { version: `${loaded.asked} ${loaded.refreshKey}` };
  return folder && loaded.asked === asked ? { problem: folder.problem ?? "The file is not there any more." } : null;
}
