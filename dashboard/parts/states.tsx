import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ApiError } from "../api/request.ts";

/** Shows an error and its remedy; nothing for null. */
export function Failure({ error }: { readonly error: unknown }) {
  if (error === null) return null;
  const isMissing = error instanceof ApiError && error.status === 404;
  const remedy = error instanceof ApiError && !isMissing ? error.remedy : null;
  const lost = error instanceof ApiError && error.status === 0;
  return (
    <div className="notice" data-tone="bad" role="alert">
      <strong>{error instanceof Error ? error.message : String(error)}</strong>
      {remedy !== null && <div className="soft">{remedy}</div>}
      {isMissing && (
        <div>
          <Link to="/">Go to Home</Link>
        </div>
      )}
      {lost && <div className="soft">This page continues by itself once the server is back.</div>}
    </div>
  );
}

export function Loading({ what }: { readonly what: string }) {
  return (
    <div className="empty small" role="status">
      Loading {what}…
    </div>
  );
}

export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children !== undefined && <div className="small">{children}</div>}
    </div>
  );
}

interface Asked<Data> {
  readonly data: Data | undefined;
  readonly error: unknown;
}

/** Shows what a query brought, also old data while the server is away. */
export function Shown<Data>({
  query,
  what,
  children,
}: {
  readonly query: Asked<Data>;
  readonly what: string;
  readonly children: (data: Data) => ReactNode;
}) {
  if (query.data !== undefined) return children(query.data);
  return query.error === null ? <Loading what={what} /> : <Failure error={query.error} />;
}
