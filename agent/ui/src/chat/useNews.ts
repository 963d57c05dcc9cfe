import { useEffect, useRef } from "react";

/** Calls `onNews` whenever `news` is another: a run has begun or ended, a message or a question has come. */
export function useNews(news: string, onNews: () => void): void {
  const tell = useRef(onNews);
  tell.current = onNews;
  useEffect(() => tell.current(), [news]);
}
