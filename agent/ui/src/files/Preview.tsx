import { IconButton } from "../components/Icon";
import { Alert, Loading } from "../components/Notice";
import { harmless } from "../text/visible";
import { addressOf, type Moment } from "./api";
import { nameOf, viewOf } from "./names";
import { Picture, Table, Text, type FileProps } from "./views";

/** The version of a file, or why the file cannot be shown; null while the file is not listed yet. */
export type FileState = { version: string } | { problem: string } | null;

interface PreviewProps {
  thread: string;
  path: string;
  /** The moment at which the file is shown; now if it is missing. */
  at?: Moment;
  state: FileState;
  onClose: () => void;
}

/** Shows a file and offers its download. The browser gets a picture or text, and never runs the file. */
export function Preview({ thread, path, at, state, onClose }: PreviewProps) {
  const name = harmless(nameOf(path));
  const when = at ? `, as it was ${at.moment} this turn` : "";
  return (
    <section className="preview stack" aria-label={`File ${name}${when}`}>
      <div className="preview-head bar">
        <h3 className="grow">
          {name}
          <span className="note">{when}</span>
        </h3>
        {state && "version" in state && (
          <a className="button" href={addressOf(thread, "content", { path, ...at })} download={nameOf(path)}>
            Download
          </a>
        )}
        <IconButton icon="cross" aria-label={`Close ${name}`} onClick={onClose} />
      </div>
      {!state && <Loading />}
      {state && "problem" in state && <Alert>{state.problem}</Alert>}
      {state && "version" in state && <View thread={thread} path={path} version={state.version} at={at} />}
    </section>
  );
}

function View(file: FileProps) {
  const view = viewOf(file.path);
  // The server shows tables and PDF files only as they are now.
  if (file.at && view === "table") return <Text {...file} />;
  if (file.at && view === "pdf") return <p className="note">Download this file to open it as it was then.</p>;
  if (view === "image" || view === "pdf") return <Picture {...file} pages={view === "pdf"} />;
  if (view === "table") return <Table {...file} />;
  if (view === "text") return <Text {...file} />;
  return <p className="note">This kind of file is not shown here. Download it to open it.</p>;
}
