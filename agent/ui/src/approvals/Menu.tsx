import { useId } from "react";
import { Icon } from "../components/Icon";

export interface Choice {
  name: string;
  about: string;
  onChoose: () => void;
}

/** A button that opens a list of choices. The browser closes the list on Escape and on a click elsewhere. */
export function Menu({ label, choices }: { label: string; choices: readonly Choice[] }) {
  const id = useId();
  return (
    <>
      <button type="button" className="menu-button primary" popoverTarget={id} aria-label={label} title={label}>
        <Icon name="chevron" />
      </button>
      <div id={id} popover="auto" className="menu-list" role="group" aria-label={label}>
        {choices.map(({ name, about, onChoose }, index) => (
          <button
            key={name}
            ref={index === 0 ? focusedOnOpening : undefined}
            type="button"
            className="choice"
            popoverTarget={id}
            popoverTargetAction="hide"
            onClick={onChoose}
          >
            <strong>{name}</strong>
            <span>{about}</span>
          </button>
        ))}
      </div>
    </>
  );
}

/** The browser moves the focus to this button as the list opens. React's `autoFocus` sets no attribute. */
function focusedOnOpening(button: HTMLButtonElement | null): void {
  button?.setAttribute("autofocus", "");
}
