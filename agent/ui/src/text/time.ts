/** How long something took, for people: `0.4 s`, `12 s`, `3 min 20 s`. */
export function duration(seconds: number): string {
  if (seconds < 0.1) return "< 0.1 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

/** The heading a day is listed under. */
export function dayOf(moment: string | undefined, now: Date): string {
  const date = moment ? new Date(moment) : now;
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const days = Math.ceil((midnight - date.getTime()) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  return date.toLocaleDateString(undefined, { month: "long", year: "numeric" });
}
