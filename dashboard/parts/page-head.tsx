import { type ReactNode, useEffect, useRef } from "react";

interface PageHeadProps {
  readonly title: ReactNode;
  /** The page's name in the browser's tab. */
  readonly page: string;
  readonly children?: ReactNode;
}

let isFirstPage = true;

/**
 * The head of a page, and the title of its tab. It takes the focus after a link was followed, so
 * that screen readers read it and Tab goes on from there.
 */
export function PageHead({ title, page, children }: PageHeadProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${page} · Wavesmith`;
  }, [page]);
  useEffect(() => {
    if (!isFirstPage && document.querySelector("dialog[open]") === null)
      heading.current?.focus({ preventScroll: true });
    isFirstPage = false;
  }, []);
  return (
    <header className="page-head">
      <h1 ref={heading} tabIndex={-1} className="clip grow">
        {title}
      </h1>
      {children}
    </header>
  );
}
