import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { Icon } from "../chat/Icon";

export interface Choice {
  name: string;
  about: string;
  onChoose: () => void;
}

/** A button that opens a list of choices: arrow keys go through it, Escape closes it. */
export function Menu({ label, choices }: { label: string; choices: readonly Choice[] }) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    items(root.current)[0]?.focus();
    const away = (event: PointerEvent) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const close = () => {
    setOpen(false);
    root.current?.querySelector<HTMLButtonElement>(".menu-button")?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    const all = items(root.current);
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
    else if (event.key === "ArrowUp") all[(at - 1 + all.length) % all.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="menu" ref={root} onKeyDown={open ? onKey : undefined}>
      <button
        type="button"
        className="menu-button"
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        <Icon name="chevron" />
      </button>
      {open && (
        <div className="menu-list" role="menu" aria-label={label}>
          {choices.map((choice) => (
            <button
              key={choice.name}
              type="button"
              role="menuitem"
              onClick={() => {
                close();
                choice.onChoose();
              }}
            >
              <strong>{choice.name}</strong>
              <span>{choice.about}</span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

function items(root: HTMLElement | null): HTMLElement[] {
  return [...(root?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
}
