const keyOf = (thread: string | null) => `code-agent-draft-${thread ?? "new"}`;

/** The text that a person has written in a chat of this tab and not sent. `thread` is null for a new chat. */
export const draftOf = (thread: string | null): string => sessionStorage.getItem(keyOf(thread)) ?? "";

/** Keep the text of the message field for the next time that the chat is opened in this tab. */
export function keepDraft(thread: string | null, text: string): void {
  if (text) sessionStorage.setItem(keyOf(thread), text);
  else sessionStorage.removeItem(keyOf(thread));
}
