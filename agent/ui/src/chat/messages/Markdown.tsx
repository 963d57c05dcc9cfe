import { memo, useMemo, type ComponentPropsWithoutRef } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { harmless } from "../../text/visible";
import { Code } from "../../components/Code";
import { Picture } from "./Picture";

interface MarkdownProps {
  text: string;
  /** The thread whose files the images are. */
  thread: string | null;
  /** The id of the message. */
  version: string;
}

/** Markdown that a model wrote. HTML is shown as text, and nothing is loaded from other hosts. */
export const Markdown = memo(function Markdown({ text, thread, version }: MarkdownProps) {
  // The functions stay the same while the text grows. Otherwise React would mount every image again.
  const components = useMemo(
    (): Components => ({
      ...PARTS,
      img: ({ src, alt }) => {
        const path = typeof src === "string" ? decoded(src) : "";
        const instead = `[picture: ${alt || path}]`;
        return <Picture path={path} alt={alt ?? ""} thread={thread} version={version} instead={instead} />;
      },
    }),
    [thread, version],
  );
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={components}>
        {harmless(text)}
      </ReactMarkdown>
    </div>
  );
});

const PARTS: Components = {
  pre: ({ children }) => <>{children}</>,
  code: CodeBlockOrInline,
  a: ({ href, children }) => {
    // react-markdown has already removed unsafe addresses.
    if (!href || !/^https?:/.test(href)) return <span>{children}</span>;
    return (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    );
  },
  table: ({ children }) => (
    <div className="table" tabIndex={0} role="group" aria-label="Table">
      <table>{children}</table>
    </div>
  ),
};

/** The path in an address. react-markdown has encoded spaces and letters such as ü in the address. */
function decoded(address: string): string {
  try {
    return decodeURI(address);
  } catch {
    return address;
  }
}

function CodeBlockOrInline({ className, children }: ComponentPropsWithoutRef<"code">) {
  const text = String(children ?? "");
  const language = /language-([\w+-]+)/.exec(className ?? "")?.[1];
  if (!language && !text.includes("\n")) return <code>{text}</code>;
  return <Code code={text.replace(/\n$/, "")} language={language?.toLowerCase()} />;
}
