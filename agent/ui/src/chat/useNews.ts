import { useEffect, useRef } from "react";

/** Calls `onNews` when a run begins or ends, and with each message. */
export function useNews(busy: boolean, messages: number, onNews: () => void): void {
  const tell = useRef(onNews);
  tell.current = onNews;
  useEffect(() => tell.current(), [busy, messages]);
}
