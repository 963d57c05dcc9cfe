import { memo, useState } from "react";
import { highlighted } from "../text/highlight";

interface CodeProps {
  code: string;
  language?: string | undefined;
  /** The name for screen readers. */
  label?: string;
}

/** Browsers offer the clipboard only on https and on localhost. */
const COPIES = "clipboard" in navigator;

/** Code with syntax colours. Long lines wrap. */
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
