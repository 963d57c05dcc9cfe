/** When something was last written into the message, and not sent since, in `performance.now()`. */
let last = -Infinity;

addEventListener("input", ({ target }) => {
  // A reason for a rejection, say, goes with its answer.
  if (target instanceof HTMLElement && target.id === "message") last = performance.now();
}, true);

/** What was written has been sent: the person has ended. */
export function written(): void {
  last = -Infinity;
}

/** Whether a person has written at the message within so many milliseconds, and not sent it. */
export function writing(within: number): boolean {
  return performance.now() - last < within;
}
