import { useEffect, type RefObject } from "react";

/** A key pressed sooner than that was meant for something else. */
const SEEN_AFTER = 500;

const FIELD = "input, textarea, select, [contenteditable], [role=menu]";

/** `a` approves the next call and `r` begins to reject it, where the focus is among the calls or nowhere. */
export function useKeys(root: RefObject<HTMLElement | null>, next: string | undefined): void {
  useEffect(() => {
    if (!next) return;
    const shown = performance.now();
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
      if (!isHere(event.target, root.current)) return;
      const wanted = { a: "approve", r: "reject" }[event.key];
      if (!wanted || performance.now() - shown < SEEN_AFTER) return;
      const button = root.current?.querySelector<HTMLButtonElement>(`[data-next] [data-answer=${wanted}]`);
      if (!button) return;
      event.preventDefault();
      button.click();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [root, next]);
}

function isHere(target: EventTarget | null, root: HTMLElement | null): boolean {
  if (target === document.body) return true;
  return target instanceof HTMLElement && root?.contains(target) === true && !target.closest(FIELD);
}
