import { useEffect, useState, type ReactNode } from "react";
import { request } from "../api/http";
import { Code } from "../components/Code";
import { Alert, Loading } from "../components/Notice";
import { languageOf } from "../text/highlight";
import { harmless } from "../text/visible";
import { addressOf, tableOf, type Moment } from "./api";
import { nameOf } from "./names";

export interface FileProps {
  thread: string;
  path: string;
  /** Changes when the file may have changed. */
  version: string;
  /** The moment at which the file is shown; now if it is missing. */
  at?: Moment | undefined;
}

/** A picture; with `pages`, a PDF file page by page. */
export function Picture({ thread, path, version, at, pages = false }: FileProps & { pages?: boolean }) {
  const [page, setPage] = useState(1);
  const address = pages ? addressOf(thread, "pdf", { path, page }) : addressOf(thread, "content", { path, view: "image", ...at });
  const load = async (signal: AbortSignal) => {
    const answer = await request(address, { signal });
    const count = Number(answer.headers.get("X-Page-Count"));
    return { url: URL.createObjectURL(await answer.blob()), count, position: `Page ${page} of ${count}` };
  };
  const name = harmless(nameOf(path));
  return (
    <Loaded source={`${address} ${version}`} load={load}>
      {({ url, count, position }) => (
        <>
          <img
            className="picture box"
            src={url}
            alt={pages ? `${position} of ${name}` : `The picture ${name}`}
            onLoad={() => URL.revokeObjectURL(url)}
          />
          {pages && (
            <Turner
              what="page"
              position={position}
              onBack={page > 1 ? () => setPage(page - 1) : null}
              onNext={page < count ? () => setPage(page + 1) : null}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

export function Text({ thread, path, version, at }: FileProps) {
  const address = addressOf(thread, "content", { path, view: "text", ...at });
  const load = async (signal: AbortSignal) => {
    const answer = await request(address, { signal });
    return { text: await answer.text(), truncated: answer.headers.get("X-Truncated") === "1" };
  };
  return (
    <Loaded source={`${address} ${version}`} load={load}>
      {({ text, truncated }) => (
        <>
          {truncated && <p className="note">Only the beginning of the file. Download it for the rest.</p>}
          {text && <Code code={harmless(text)} language={languageOf(path)} label={`Text of ${harmless(nameOf(path))}`} />}
          {!text && <p className="note">The file is empty.</p>}
        </>
      )}
    </Loaded>
  );
}

const ROWS = 100;

/** A CSV or TSV file, 100 rows at a time. */
export function Table({ thread, path, version }: FileProps) {
  /** The first row of each part that was shown, the current part last. */
  const [starts, setStarts] = useState<readonly number[]>([0]);
  const offset = starts.at(-1)!;
  return (
    <Loaded source={`${thread} ${path} ${offset} ${version}`} load={() => tableOf(thread, path, offset, ROWS)}>
      {({ columns, rows, total, cut, ...table }) => {
        if (columns.length === 0 && table.offset === 0) return <p className="note">The file is empty.</p>;
        const end = table.offset + rows.length;
        const count = (number: number) => number.toLocaleString("en");
        const position = `Rows ${count(table.offset + 1)} to ${count(end)}${total === null ? "" : ` of ${count(total)}`}`;
        return (
          <>
            <div className="table box" tabIndex={0} role="region" aria-label={`Table ${harmless(nameOf(path))}`}>
              <table>
                <thead>
                  <tr>
                    {columns.map((column, index) => (
                      <th key={index} scope="col">
                        {harmless(column)}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row, index) => (
                    <tr key={index}>
                      {row.map((cell, at) => (
                        <td key={at}>{harmless(cell)}</td>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {cut && <p className="note">Long cells and columns beyond 200 are cut. Download the file for the rest.</p>}
            <Turner
              what="part of the table"
              position={rows.length ? position : "No more rows"}
              onBack={starts.length > 1 ? () => setStarts(starts.slice(0, -1)) : null}
              onNext={rows.length && (total === null || end < total) ? () => setStarts([...starts, end]) : null}
            />
          </>
        );
      }}
    </Loaded>
  );
}

interface TurnerProps {
  /** What is shown in parts, such as "page". */
  what: string;
  position: string;
  /** Null where there is nothing before or after. */
  onBack: (() => void) | null;
  onNext: (() => void) | null;
}

/** Buttons to the part before and after, with the position between them. They keep the focus when they are disabled. */
const Turner = ({ what, position, onBack, onNext }: TurnerProps) => (
  <div className="turner bar" role="group" aria-label={`Choose a ${what}`}>
    <button type="button" aria-disabled={!onBack} onClick={() => onBack?.()}>
      Back
    </button>
    <span role="status">{position}</span>
    <button type="button" aria-disabled={!onNext} onClick={() => onNext?.()}>
      Next
    </button>
  </div>
);

interface LoadedProps<T> {
  /** Names everything that `load` depends on. The value is loaded again when this text changes. */
  source: string;
  load: (signal: AbortSignal) => Promise<T>;
  children: (value: T) => ReactNode;
}

/** Shows a value once it is loaded, or why it cannot be loaded. The old value stays until the new value is there. */
function Loaded<T>({ source, load, children }: LoadedProps<T>) {
  const [loaded, setLoaded] = useState<{ value: T } | { problem: string } | null>(null);
  useEffect(() => {
    const ended = new AbortController();
    load(ended.signal).then(
      (value) => !ended.signal.aborted && setLoaded({ value }),
      (error: Error) => !ended.signal.aborted && setLoaded({ problem: error.message }),
    );
    return () => ended.abort();
  }, [source]);
  if (!loaded) return <Loading />;
  return "problem" in loaded ? <Alert>{loaded.problem}</Alert> : children(loaded.value);
}
