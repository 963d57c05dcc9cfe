const FOLDERS = /^\/?(?:workspace\/|data\/|results\/|scripts\/)/;
const IMAGE = /\.(?:png|jpe?g|gif|webp)$/i;
const MENTIONED = /\/(?:workspace\/|data\/|results\/|scripts\/)[^\s"'`<>()[\]*|]+?\.(?:png|jpe?g|gif|webp)\b/gi;

/** Where a picture of the workspace is read; null for a name that is none, and for a picture from elsewhere. */
export function imageUrl(path: string, thread: string): string | null {
  if (!FOLDERS.test(path) || !IMAGE.test(path)) return null;
  const absolute = path.startsWith("/") ? path : `/${path}`;
  return `/files/${thread}/content?view=image&path=${encodeURIComponent(absolute)}`;
}

/** The pictures of the workspace that a text names, each once, but not those it shows itself. */
export function imagesNamed(text: string): string[] {
  const shown = new Set([...text.matchAll(/!\[[^\]]*\]\(([^)\s]+)/g)].map((found) => found[1]));
  const named = [...text.matchAll(MENTIONED)].map((found) => found[0]);
  return [...new Set(named)].filter((path) => !shown.has(path));
}
