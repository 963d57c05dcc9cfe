import { useEffect, type RefObject } from "react";

/** Milliseconds after a new question during which keys are ignored: the person has not read the question yet. */
const IGNORED = 500;

const FIELD = "input, textarea, select, [contenteditable], [popover]";

/** `a` approves the next call and `r` starts its rejection. The focus must be among the calls or on nothing. */
export function useKeys(root: RefObject<HTMLElement | null>, next: string | undefined): void {
  useEffect(() => {
    if (!next) return;
    const shown = performance.now();
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.isComposing) return;
      if (!isHere(event.target, root.current)) return;
      const wanted = { a: "approve", r: "reject" }[event.key];
      if (!wanted || performance.now() - shown < IGNORED) return;
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
