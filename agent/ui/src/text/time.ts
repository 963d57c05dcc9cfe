/** Format a duration: `0.4 s`, `12 s`, `3 min 20 s`. */
export function duration(seconds: number): string {
  if (seconds < 0.1) return "< 0.1 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** The heading under which the list of chats shows a chat of this time. */
export function dayOf(moment: string, now: Date): string {
  const date = new Date(moment);
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const days = Math.ceil((midnight - date.getTime()) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  return days < 7 ? "This week" : date.toLocaleDateString(undefined, { month: "long", year: "numeric" });
}
