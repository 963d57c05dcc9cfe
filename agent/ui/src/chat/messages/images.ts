import { WORKSPACE } from "../../files/names";

const FOLDERS = /^\/(?:workspace|data|results|scripts)\//;
const IMAGE = /\.(?:png|jpe?g|gif|webp)$/i;
const MENTIONED =
  /(?<![\w/.:-])(?:\.?\/)?(?:workspace|data|results|scripts)\/[^\s"'`<>()[\]*|]+?\.(?:png|jpe?g|gif|webp)\b/gi;

/**
 * The URL of an image in the workspace; null for any other path.
 *
 * `version` differs between messages, because an image can be drawn again under the same name.
 */
export function imageUrl(path: string, thread: string, version: string): string | null {
  const whole = absolute(path);
  if (!FOLDERS.test(whole) || !isImage(whole)) return null;
  return `/files/${thread}/content?view=image&path=${encodeURIComponent(whole)}&v=${encodeURIComponent(version)}`;
}

/** The path below /workspace of a path that `imageUrl` takes; null for any other path. */
export function placeOf(path: string): string | null {
  const whole = absolute(path);
  if (!FOLDERS.test(whole)) return null;
  return whole.startsWith(`${WORKSPACE}/`) ? whole : `${WORKSPACE}${whole}`;
}

export const isImage = (name: string): boolean => IMAGE.test(name);

/** The absolute paths of the workspace's images that a text names but does not embed, without duplicates. */
export function imagesNamed(text: string): string[] {
  const shown = new Set(imagesShown(text));
  const named = [...text.matchAll(MENTIONED)].map((found) => absolute(found[0]));
  return [...new Set(named)].filter((path) => !shown.has(path));
}

/** The absolute paths of the images that a text embeds. */
export function imagesShown(text: string): string[] {
  return [...text.matchAll(/!\[[^\]]*\]\(([^)\s]+)/g)].map((found) => absolute(found[1]!));
}

/** The absolute path: `results/a.png`, `./results/a.png` and `/workspace/results/a.png` are `/results/a.png`. */
function absolute(path: string): string {
  if (/^[a-z][\w+.-]*:/i.test(path)) return path;
  const whole = `/${path.replace(/^(?:\.?\/)?/, "")}`;
  return whole.replace(/^\/workspace(?=\/(?:data|results|scripts)\/)/, "");
}
