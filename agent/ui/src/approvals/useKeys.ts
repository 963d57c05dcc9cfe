import { useEffect, type RefObject } from "react";

/** A key pressed sooner than that was meant for something else. */
const SEEN_AFTER = 500;

/** `a` approves the next call and `r` begins to reject it, wherever the focus is but in a field. */
export function useKeys(root: RefObject<HTMLElement | null>, next: string | undefined): void {
  useEffect(() => {
    if (!next) return;
    const shown = performance.now();
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || inField(event.target)) return;
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

function inField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
