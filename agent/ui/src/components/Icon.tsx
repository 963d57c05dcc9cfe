import type { ComponentProps } from "react";

const PATHS = {
  check: "M4 10.5l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
  pause: "M7 4v12M13 4v12",
  stop: "M5.5 5.5h9v9h-9z",
  send: "M10 16V4M4.5 9.5L10 4l5.5 5.5",
  plus: "M10 4v12M4 10h12",
  menu: "M3 5.5h14M3 10h14M3 14.5h14",
  files: "M3 6.5A1.5 1.5 0 014.5 5H8l1.5 2h6A1.5 1.5 0 0117 8.5v6a1.5 1.5 0 01-1.5 1.5h-11A1.5 1.5 0 013 14.5z",
  search: "M9 3.5a5.5 5.5 0 110 11 5.5 5.5 0 010-11zM13 13l4 4",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.6l.7-10",
  chevron: "M6 8l4 4 4-4",
  agent: "M4 8h12v8H4zM10 8V4M7.5 12h.01M12.5 12h.01",
  tool: "M12 3a5 5 0 00-4.6 6.9L3 14.3 5.7 17l4.4-4.4A5 5 0 0016.5 6L13.6 9 11 6.4 14 3.5A5 5 0 0012 3z",
  shield: "M10 2.5l6 2.2v4.6c0 3.8-2.5 6.7-6 8.2-3.5-1.5-6-4.4-6-8.2V4.7z",
  theme: "M10 3a7 7 0 100 14zM10 3a7 7 0 010 14",
  plan: "M4 5.5l1 1 2-2M4 10.5l1 1 2-2M4 15.5l1 1 2-2M10 5.5h6M10 10.5h6M10 15.5h6",
} as const;

type IconName = keyof typeof PATHS;

/** A decorative icon, hidden from screen readers. Words or a label beside the icon say the same. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg className={`icon icon-${name}`} viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name]} fill="none" stroke="currentColor" strokeWidth="1.6" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}

interface IconButtonProps extends ComponentProps<"button"> {
  icon: IconName;
  "aria-label": string;
}

/** A button that shows only an icon. Its label is for screen readers. */
export const IconButton = ({ icon, className = "quiet", ...rest }: IconButtonProps) => (
  <button type="button" className={className} {...rest}>
    <Icon name={icon} />
  </button>
);
