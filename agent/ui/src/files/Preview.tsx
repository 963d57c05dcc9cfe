import { useState } from "react";
import { Code } from "../chat/Code";
import { Icon } from "../chat/Icon";
import { languageOf } from "../text/highlight";
import { harmless } from "../text/visible";
import { addressOf, fetched } from "./api";
import { nameOf, viewOf } from "./names";
import { TableView } from "./TableView";
import { useLoaded } from "./useLoaded";

interface ShownProps {
  thread: string;
  path: string;
  /** Changes when the file may have changed. */
  version: string;
}

interface PreviewProps extends ShownProps {
  onClose: () => void;
}

/** A file: what is in it, and how it is saved. Nothing in it is run: it is a picture, or text. */
export function Preview({ thread, path, version, onClose }: PreviewProps) {
  const view = viewOf(path);
  const [asText, setAsText] = useState(false);
  const name = harmless(nameOf(path));
  const shown = { thread, path, version };
  return (
    <section className="preview" aria-label={`File ${name}`}>
      <div className="preview-head">
        <h3>{name}</h3>
        {view === "table" && (
          <button type="button" aria-pressed={asText} onClick={() => setAsText(!asText)}>
            As text
          </button>
        )}
        <a className="button" href={addressOf(thread, "content", { path })} download={nameOf(path)}>
          Download
        </a>
        <button type="button" className="quiet" aria-label={`Close ${name}`} onClick={onClose}>
          <Icon name="cross" />
        </button>
      </div>
      {view === "image" && <Picture {...shown} />}
      {view === "pdf" && <Pages {...shown} />}
      {view === "table" && !asText && <TableView {...shown} />}
      {(view === "text" || asText) && <Text {...shown} />}
      {view === "none" && <p className="note">This kind of file is not shown here. Download it to open it.</p>}
    </section>
  );
}

const release = (picture: { url: string }) => URL.revokeObjectURL(picture.url);

function Picture({ thread, path, version }: ShownProps) {
  const address = addressOf(thread, "content", { path, view: "image" });
  const { value, problem } = useLoaded(
    `${address} ${version}`,
    async (signal) => ({ url: URL.createObjectURL(await (await fetched(address, signal)).blob()) }),
    release,
  );
  if (problem) return <Failed problem={problem} />;
  return value ? <img className="picture" src={value.url} alt={`The picture ${harmless(nameOf(path))}`} /> : <Loading />;
}

function Pages({ thread, path, version }: ShownProps) {
  const [page, setPage] = useState(1);
  const address = addressOf(thread, "pdf", { path, page });
  const { value, problem } = useLoaded(
    `${address} ${version}`,
    async (signal) => {
      const answer = await fetched(address, signal);
      const pages = Number(answer.headers.get("X-Page-Count"));
      return { url: URL.createObjectURL(await answer.blob()), pages, page };
    },
    release,
  );
  if (problem) return <Failed problem={problem} />;
  if (!value) return <Loading />;
  return (
    <>
      <img className="picture" src={value.url} alt={`Page ${value.page} of ${value.pages} of ${harmless(nameOf(path))}`} />
      <Turner
        what="page"
        told={`Page ${value.page} of ${value.pages}`}
        onBack={page > 1 ? () => setPage(page - 1) : null}
        onOn={page < value.pages ? () => setPage(page + 1) : null}
      />
    </>
  );
}

function Text({ thread, path, version }: ShownProps) {
  const address = addressOf(thread, "content", { path, view: "text" });
  const { value, problem } = useLoaded(`${address} ${version}`, async (signal) => {
    const answer = await fetched(address, signal);
    return { text: await answer.text(), cut: answer.headers.get("X-Truncated") === "1" };
  });
  if (problem) return <Failed problem={problem} />;
  if (!value) return <Loading />;
  return (
    <>
      {value.cut && <p className="note">The beginning of it; download it for the rest.</p>}
      {value.text ? (
        <Code code={harmless(value.text)} language={languageOf(path)} label={`Text of ${harmless(nameOf(path))}`} />
      ) : (
        <p className="note">The file is empty.</p>
      )}
    </>
  );
}

interface TurnerProps {
  what: string;
  told: string;
  onBack: (() => void) | null;
  onOn: (() => void) | null;
}

/** Back and on, and where one is; null where there is nothing more. */
export function Turner({ what, told, onBack, onOn }: TurnerProps) {
  return (
    <div className="turner" role="group" aria-label={`Choose a ${what}`}>
      <button type="button" aria-disabled={!onBack} onClick={() => onBack?.()}>
        Back
      </button>
      <span role="status">{told}</span>
      <button type="button" aria-disabled={!onOn} onClick={() => onOn?.()}>
        Next
      </button>
    </div>
  );
}

export const Loading = () => <p className="note">Loading …</p>;

export function Failed({ problem }: { problem: string }) {
  return (
    <p className="problem" role="alert">
      {problem}
    </p>
  );
}
