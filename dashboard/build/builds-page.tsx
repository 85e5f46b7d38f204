import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { buildsQuery } from "../api/queries.ts";
import { asWhole } from "../parts/as-whole.ts";
import { PageHead } from "../parts/page-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { isOpen } from "../parts/tones.ts";
import { sentenceCase } from "../parts/words.ts";
import { BuildTable } from "./build-table.tsx";

const route = getRouteApi("/builds");
export const buildFilters = ["open", "completed", "failed"] as const;
export type BuildFilter = (typeof buildFilters)[number];

const isIn: Readonly<Record<BuildFilter, (status: string) => boolean>> = {
  open: isOpen,
  completed: (status) => status === "completed",
  failed: (status) => status === "failed" || status === "cancelled",
};

/** Every build, newest first. */
export function BuildsPage() {
  const { only } = route.useSearch();
  const builds = useQuery(buildsQuery());
  return (
    <>
      <PageHead title="Builds" page="Builds">
        <Link to="/start" className="button primary">
          Start a build
        </Link>
      </PageHead>
      <nav className="tabs" aria-label="Which builds">
        {[undefined, ...buildFilters].map((filter) => (
          <Link
            key={filter ?? "all"}
            to="/builds"
            search={filter === undefined ? {} : { only: filter }}
            className="tab"
            activeOptions={asWhole}
          >
            {sentenceCase(filter ?? "all")}
          </Link>
        ))}
      </nav>
      <Shown query={builds} what="builds">
        {(rows) => {
          const shown = only === undefined ? rows : rows.filter(({ status }) => isIn[only](status));
          if (shown.length > 0) return <BuildTable rows={shown} />;
          return (
            <Empty title={rows.length === 0 ? "No build yet." : "No builds here."}>
              {rows.length === 0 && <Link to="/start">Start one</Link>}
            </Empty>
          );
        }}
      </Shown>
    </>
  );
}
