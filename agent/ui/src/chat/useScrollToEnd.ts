import { useCallback, useEffect, useEffectEvent, useRef, type UIEvent } from "react";

/** Pixels above the end at which the end still counts as in sight. */
const NEAR = 80;

/**
 * Keeps the end of a growing box in sight, unless a person has scrolled up. Returns the props of the box as
 * `box`, and the function `follow`, which scrolls to the end again.
 *
 * `length` changes when the box grows. Nothing scrolls unless `active`.
 */
export function useScrollToEnd(length: number, active = true) {
  const ref = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  /** At the last event: the scroll position, and the scroll position of the end. */
  const last = useRef({ top: 0, end: 0 });
  const toEnd = useEffectEvent(() => {
    const box = ref.current;
    if (!active || !following.current || !box) return;
    box.scrollTop = endOf(box);
    last.current = { top: box.scrollTop, end: endOf(box) };
  });
  useEffect(() => {
    const resized = new ResizeObserver(() => toEnd());
    // The box shrinks when a plan or a grant appears below it.
    resized.observe(ref.current!);
    resized.observe(ref.current!.firstElementChild!);
    return () => resized.disconnect();
  }, []);
  useEffect(() => toEnd(), [length]);
  const onScroll = ({ currentTarget: box }: UIEvent<HTMLElement>) => {
    const before = last.current;
    last.current = { top: box.scrollTop, end: endOf(box) };
    // The distance from the end does not show that a person has scrolled: an image that loads moves the end away.
    // The browser itself scrolls up only if the content has become shorter.
    if (box.scrollTop >= endOf(box) - NEAR) following.current = true;
    else if (box.scrollTop < before.top && endOf(box) >= before.end) following.current = false;
  };
  const follow = useCallback(() => {
    following.current = true;
    const box = ref.current;
    if (box) box.scrollTop = endOf(box);
  }, []);
  return { box: { ref, onScroll }, follow };
}

const endOf = (box: HTMLElement): number => box.scrollHeight - box.clientHeight;
