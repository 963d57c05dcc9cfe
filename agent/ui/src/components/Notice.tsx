import type { ReactNode } from "react";

/** An error that a screen reader announces. */
export const Alert = ({ children }: { children: ReactNode }) => (
  <div className="problem" role="alert">
    {children}
  </div>
);

export const Loading = () => <p className="note">Loading …</p>;
