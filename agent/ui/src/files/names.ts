export const WORKSPACE = "/workspace";

type View = "image" | "table" | "pdf" | "text" | "none";

const VIEWS: Record<Exclude<View, "text">, RegExp> = {
  image: /\.(?:png|jpe?g|gif|webp)$/i,
  table: /\.(?:csv|tsv)$/i,
  pdf: /\.pdf$/i,
  none: /\.(?:zip|gz|tgz|bz2|xz|zst|7z|tar|xlsx?|ods|docx?|odt|pptx?|parquet|feather|arrow|npy|npz|pkl|pickle|sqlite|db|bin|so|pyc|mp[34]|wav|ogg|mov|avi|webm|woff2?|ttf|otf|ico|bmp|tiff?|heic)$/i,
};

/** How a file is shown, by its name. The server may still refuse the file for its content. */
export function viewOf(path: string): View {
  for (const [view, ending] of Object.entries(VIEWS)) if (ending.test(path)) return view as View;
  return "text";
}

export const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

export const folderOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf("/"), 1));

export const below = (folder: string, name: string): string => `${folder === "/" ? "" : folder}/${name}`;

/** Format a size: `812 bytes`, `3.4 kB`. */
export function sizeOf(bytes: number): string {
  if (bytes === 1) return "1 byte";
  if (bytes < 1000) return `${bytes} bytes`;
  const power = Math.min(4, Math.floor(Math.log10(bytes) / 3));
  const size = bytes / 1000 ** power;
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${["", "kB", "MB", "GB", "TB"][power]}`;
}
