import type { ReactNode } from "react";

/** Most paths of a list that are shown. */
const MOST = 50;

interface PathsProps {
  paths: readonly string[];
  /** Shows one path. */
  children: (path: string) => ReactNode;
}

/** The items of a list of paths. A long list is cut, and its last item says how many paths are left out. */
export const Paths = ({ paths, children }: PathsProps) => (
  <>
    {paths.slice(0, MOST).map((path) => (
      <li key={path}>{children(path)}</li>
    ))}
    {paths.length > MOST && <li className="note">and {(paths.length - MOST).toLocaleString("en")} more</li>}
  </>
);
