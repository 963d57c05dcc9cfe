/** Time of the last input into the message field since a message was sent, in `performance.now()`. */
let last = -Infinity;

addEventListener("input", ({ target }) => {
  // Other fields, such as the reason of a rejection, do not count.
  if (target instanceof HTMLElement && target.id === "message") last = performance.now();
}, true);

/** Call after a message was sent: the person no longer types. */
export function messageSent(): void {
  last = -Infinity;
}

/** Whether a person has typed in the last `milliseconds` and has not sent the text. */
export function typedWithin(milliseconds: number): boolean {
  return performance.now() - last < milliseconds;
}
