const FOLDERS = /^\/(?:workspace|data|results|scripts)\//;
const IMAGE = /\.(?:png|jpe?g|gif|webp)$/i;
const MENTIONED =
  /(?<![\w/.:-])(?:\.?\/)?(?:workspace|data|results|scripts)\/[^\s"'`<>()[\]*|]+?\.(?:png|jpe?g|gif|webp)\b/gi;

/**
 * Where a picture of the workspace is read; null for a name that is none, and for a picture from elsewhere.
 *
 * `version` is another for each message: a picture drawn again is another one under the same name.
 */
export function imageUrl(path: string, thread: string, version: string): string | null {
  const whole = absolute(path);
  if (!FOLDERS.test(whole) || !isImage(whole)) return null;
  return `/files/${thread}/content?view=image&path=${encodeURIComponent(whole)}&v=${encodeURIComponent(version)}`;
}

export const isImage = (name: string): boolean => IMAGE.test(name);

/** The pictures of the workspace that a text names, each once and absolute, but not those it shows itself. */
export function imagesNamed(text: string): string[] {
  const shown = new Set(imagesShown(text));
  const named = [...text.matchAll(MENTIONED)].map((found) => absolute(found[0]));
  return [...new Set(named)].filter((path) => !shown.has(path));
}

/** The pictures that a text shows itself. */
export function imagesShown(text: string): string[] {
  return [...text.matchAll(/!\[[^\]]*\]\(([^)\s]+)/g)].map((found) => absolute(found[1]!));
}

/** `results/a.png`, `./results/a.png` and `/workspace/results/a.png` are one file: `/results/a.png`. */
function absolute(path: string): string {
  if (/^[a-z][\w+.-]*:/i.test(path)) return path;
  const whole = `/${path.replace(/^(?:\.?\/)?/, "")}`;
  return whole.replace(/^\/workspace(?=\/(?:data|results|scripts)\/)/, "");
}
