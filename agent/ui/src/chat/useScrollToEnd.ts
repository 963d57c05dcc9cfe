import { useEffect, useEffectEvent, useRef, type UIEvent } from "react";

/**
 * Keeps the end of a growing box in sight, unless a person has scrolled away from it. Returns the box's props.
 *
 * `length` changes when the box grows. Nothing scrolls unless `active`.
 */
export function useScrollToEnd(length: number, active = true) {
  const ref = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const follow = useEffectEvent(() => {
    if (active && following.current && ref.current) ref.current.scrollTop = ref.current.scrollHeight;
  });
  useEffect(() => {
    const resized = new ResizeObserver(() => follow());
    // The box shrinks when a plan or a grant appears below it.
    resized.observe(ref.current!);
    resized.observe(ref.current!.firstElementChild!);
    return () => resized.disconnect();
  }, []);
  useEffect(() => follow(), [length]);
  const onScroll = ({ currentTarget }: UIEvent) => {
    following.current = currentTarget.scrollHeight - currentTarget.scrollTop - currentTarget.clientHeight < 80;
  };
  return { ref, onScroll };
}
