import { list, type Entry, type Listing } from "./api";
import { folderOf, nameOf, WORKSPACE } from "./names";

/**
 * The folders of a workspace. Lists each folder once, and only if its parent folder contains it, so that the page
 * requests only folders that exist. Create a new object when files may have changed.
 */
export class Listings {
  private readonly asked = new Map<string, Promise<Listing | null>>();

  constructor(private readonly thread: string) {}

  /** The listing of a folder below /workspace; null if there is no such folder. */
  folder(path: string): Promise<Listing | null> {
    const found = this.asked.get(path) ?? this.load(path);
    this.asked.set(path, found);
    return found;
  }

  /** Whether a file exists; also true if the file is not listed, but its folder has more entries than are listed. */
  async has(path: string): Promise<boolean> {
    const folder = await this.folder(folderOf(path));
    return folder !== null && (folder.truncated || entryAt(folder, path) !== undefined);
  }

  private async load(path: string): Promise<Listing | null> {
    if (path !== WORKSPACE) {
      const parent = path.startsWith(`${WORKSPACE}/`) ? await this.folder(folderOf(path)) : null;
      const entry = parent && entryAt(parent, path);
      if (!parent?.truncated && !(entry && isFolder(entry))) return null;
    }
    return list(this.thread, path);
  }
}

export const isFolder = ({ kind, leads_to }: Entry): boolean => kind === "folder" || leads_to === "folder";

/** The entry of a path in the listing of its folder. */
export const entryAt = ({ entries }: { entries: readonly Entry[] }, path: string): Entry | undefined =>
  entries.find(({ name }) => name === nameOf(path));
