export interface FilePanelProps {
  threadId: string | null;
  /** Makes a thread where there is none yet, and opens it. */
  onNeedThread: () => Promise<string>;
  /** Changes when files may have changed. */
  refreshKey: number;
}

/** The files of the workspace. */
export function FilePanel(_: FilePanelProps) {
  return <p className="note">The files of the workspace are shown here.</p>;
}
