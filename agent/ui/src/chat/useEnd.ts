import { useEffect, useRef } from "react";

/** Keeps the end of a chat in sight while it grows, unless a person has scrolled away from it. */
export function useEnd(news: unknown) {
  const scroller = useRef<HTMLDivElement>(null);
  const end = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  useEffect(() => {
    const box = scroller.current;
    const content = end.current?.parentElement;
    if (!box || !content) return;
    const look = () => {
      following.current = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
    };
    const follow = new ResizeObserver(() => {
      if (following.current) box.scrollTop = box.scrollHeight;
    });
    box.addEventListener("scroll", look, { passive: true });
    follow.observe(content);
    return () => {
      box.removeEventListener("scroll", look);
      follow.disconnect();
    };
  }, []);
  useEffect(() => {
    if (following.current && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [news]);
  return { scroller, end };
}
