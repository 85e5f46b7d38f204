import { type ReactNode, useEffect } from "react";

/** The head of a page, and the title of its tab. */
export function PageHead({
  title,
  page,
  children,
}: {
  readonly title: ReactNode;
  /** The page's name in the browser's tab. */
  readonly page: string;
  readonly children?: ReactNode;
}) {
  useEffect(() => {
    document.title = `${page} · Wavesmith`;
  }, [page]);
  return (
    <header className="page-head">
      <h1 className="clip grow">{title}</h1>
      {children}
    </header>
  );
}
