import { IconButton } from "../components/Icon";
import { harmless } from "../text/visible";
import { addressOf } from "./api";
import { nameOf, viewOf } from "./names";
import { Picture, Table, Text, type FileProps } from "./views";

/** Shows a file and offers its download. The browser gets a picture or text, and never runs the file. */
export function Preview({ onClose, ...file }: FileProps & { onClose: () => void }) {
  const { thread, path } = file;
  const view = viewOf(path);
  const name = harmless(nameOf(path));
  return (
    <section className="preview stack" aria-label={`File ${name}`}>
      <div className="preview-head bar">
        <h3 className="grow">{name}</h3>
        <a className="button" href={addressOf(thread, "content", { path })} download={nameOf(path)}>
          Download
        </a>
        <IconButton icon="cross" aria-label={`Close ${name}`} onClick={onClose} />
      </div>
      {(view === "image" || view === "pdf") && <Picture {...file} pages={view === "pdf"} />}
      {view === "table" && <Table {...file} />}
      {view === "text" && <Text {...file} />}
      {view === "none" && <p className="note">This kind of file is not shown here. Download it to open it.</p>}
    </section>
  );
}
