import type { ReactNode } from "react";

/** Most paths of a list that are shown. */
const MOST = 50;

interface PathsProps {
  paths: readonly string[];
  /** How many paths the list itself leaves out. */
  more?: number;
  /** Shows one path. */
  children: (path: string) => ReactNode;
}

/** The items of a list of paths. A long list is cut, and its last item says how many paths are left out. */
export const Paths = ({ paths, more = 0, children }: PathsProps) => (
  <>
    {paths.slice(0, MOST).map((path) => (
      <li key={path}>{children(path)}</li>
    ))}
    {Math.max(paths.length - MOST, 0) + more > 0 && (
      <li className="note">and {(Math.max(paths.length - MOST, 0) + more).toLocaleString("en")} more</li>
    )}
  </>
);
