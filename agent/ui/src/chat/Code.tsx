import { memo, useState } from "react";
import { highlighted } from "../text/highlight";

interface CodeProps {
  code: string;
  language?: string | undefined;
  /** What it is, for people who cannot see it. */
  label?: string;
}

/** Browsers let a page copy where its address is this machine's own, or https. */
const COPIES = "clipboard" in navigator;

/** Code with syntax colours, every line of it within the width. */
export const Code = memo(function Code({ code, language, label }: CodeProps) {
  const html = highlighted(code, language);
  return (
    <div className="code">
      <pre tabIndex={0} role="group" aria-label={label ?? `${language ?? "text"} code`}>
        {html === null ? <code>{code}</code> : <code dangerouslySetInnerHTML={{ __html: html }} />}
      </pre>
      {COPIES && <Copy text={code} />}
    </div>
  );
});

function Copy({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <button type="button" className="copy" onClick={() => void copy()}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
