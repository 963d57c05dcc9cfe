import { memo, type ComponentPropsWithoutRef, type ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { harmless } from "../text/visible";
import { Code } from "./Code";
import { imageUrl } from "./images";

interface MarkdownProps {
  text: string;
  /** Whose files its pictures are. */
  thread: string | null;
  /** The message that it is of. */
  version: string;
}

/** What a model has said. HTML in it is shown as the text it is; nothing is loaded from elsewhere. */
export const Markdown = memo(function Markdown({ text, thread, version }: MarkdownProps) {
  const components: Components = {
    pre: ({ children }) => <>{children}</>,
    code: CodeOrWord,
    a: ({ href, children }) => <Link href={href}>{children}</Link>,
    img: ({ src, alt }) => <Picture source={typeof src === "string" ? src : ""} alt={alt ?? ""} thread={thread} version={version} />,
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

function CodeOrWord({ className, children }: ComponentPropsWithoutRef<"code">) {
  const text = String(children ?? "");
  const language = /language-([\w+-]+)/.exec(className ?? "")?.[1];
  if (!language && !text.includes("\n")) return <code>{text}</code>;
  return <Code code={text.replace(/\n$/, "")} language={language?.toLowerCase()} />;
}

function Link({ href, children }: { href: string | undefined; children: ReactNode }) {
  // react-markdown has taken out what is no address of the web.
  if (!href || !/^https?:/.test(href)) return <span>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

interface PictureProps {
  source: string;
  alt: string;
  thread: string | null;
  version: string;
}

function Picture({ source, alt, thread, version }: PictureProps) {
  const url = thread && imageUrl(source, thread, version);
  return url ? <img src={url} alt={alt} loading="lazy" /> : <span className="note">[picture: {alt || source}]</span>;
}
