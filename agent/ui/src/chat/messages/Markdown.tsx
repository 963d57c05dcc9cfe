import { memo, type ComponentPropsWithoutRef } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { harmless } from "../../text/visible";
import { Code } from "../../components/Code";
import { imageUrl } from "./images";

interface MarkdownProps {
  text: string;
  /** The thread whose files the images are. */
  thread: string | null;
  /** The id of the message. */
  version: string;
}

/** Markdown that a model wrote. HTML is shown as text, and nothing is loaded from other hosts. */
export const Markdown = memo(function Markdown({ text, thread, version }: MarkdownProps) {
  const components: Components = {
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
    img: ({ src, alt }) => {
      const url = thread && typeof src === "string" && imageUrl(src, thread, version);
      if (!url) return <span className="note">[picture: {alt || src}]</span>;
      return <img className="picture box" src={url} alt={alt ?? ""} loading="lazy" />;
    },
    table: ({ children }) => (
      <div className="table" tabIndex={0} role="group" aria-label="Table">
        <table>{children}</table>
      </div>
    ),
  };
  return (
    <div className="markdown">
      <ReactMarkdown remarkPlugins={[remarkGfm]} components={components}>
        {harmless(text)}
      </ReactMarkdown>
    </div>
  );
});

function CodeBlockOrInline({ className, children }: ComponentPropsWithoutRef<"code">) {
  const text = String(children ?? "");
  const language = /language-([\w+-]+)/.exec(className ?? "")?.[1];
  if (!language && !text.includes("\n")) return <code>{text}</code>;
  return <Code code={text.replace(/\n$/, "")} language={language?.toLowerCase()} />;
}
