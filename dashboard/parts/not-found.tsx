import { Link } from "@tanstack/react-router";
import { PageHead } from "./page-head.tsx";
import { Empty } from "./states.tsx";

/** The page of an address that leads nowhere. */
export function NotFound({ what }: { readonly what: string }) {
  return (
    <>
      <PageHead title="Not found" page="Not found" />
      <Empty title={what}>
        <Link to="/">Go to Home</Link>
      </Empty>
    </>
  );
}
