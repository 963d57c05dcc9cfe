import { useState } from "react";
import { harmless } from "../text/visible";
import { tableOf, type Table } from "./api";
import { nameOf } from "./names";
import { Failed, Loading, Turner } from "./Preview";
import { useLoaded } from "./useLoaded";

const ROWS = 100;

interface TableViewProps {
  thread: string;
  path: string;
  version: string;
}

/** Rows of a CSV file, a hundred at a time. */
export function TableView({ thread, path, version }: TableViewProps) {
  const [starts, setStarts] = useState<readonly number[]>([0]);
  const offset = starts[starts.length - 1] ?? 0;
  const { value, problem } = useLoaded(`${thread} ${path} ${offset} ${version}`, () =>
    tableOf(thread, path, offset, ROWS),
  );
  if (problem) return <Failed problem={problem} />;
  if (!value) return <Loading />;
  const end = value.offset + value.rows.length;
  const more = value.rows.length > 0 && (value.total === null || end < value.total);
  return (
    <>
      <div className="table" tabIndex={0} role="region" aria-label={`Table ${harmless(nameOf(path))}`}>
        <table>
          <thead>
            <tr>
              {value.columns.map((column, index) => (
                <th key={index} scope="col">
                  {harmless(column)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {value.rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, at) => (
                  <td key={at}>{harmless(cell)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {value.cut && <p className="note">Long cells and columns beyond 200 are cut; download it for the rest.</p>}
      <Turner
        what="part of the table"
        told={where(value, end)}
        onBack={starts.length > 1 ? () => setStarts(starts.slice(0, -1)) : null}
        onOn={more ? () => setStarts([...starts, end]) : null}
      />
    </>
  );
}

function where(table: Table, end: number): string {
  if (!table.rows.length) return table.total ? "No more rows" : "No rows";
  const total = table.total === null ? "" : ` of ${table.total.toLocaleString("en")}`;
  return `Rows ${(table.offset + 1).toLocaleString("en")} to ${end.toLocaleString("en")}${total}`;
}
