import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { buildsQuery } from "../api/queries.ts";
import { PageHead } from "../parts/page-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { isOpen } from "../parts/tones.ts";
import { BuildTable } from "./build-table.tsx";

const filters = {
  all: () => true,
  open: isOpen,
  completed: (status: string) => status === "completed",
  failed: (status: string) => status === "failed" || status === "cancelled",
} as const;

/** Every build, newest first. */
export function BuildsPage() {
  const [filter, setFilter] = useState<keyof typeof filters>("all");
  const builds = useQuery(buildsQuery());
  return (
    <>
      <PageHead title="Builds" page="Builds">
        <Link to="/start" className="button primary">
          Start a build
        </Link>
      </PageHead>
      <div className="tabs" role="tablist" aria-label="Which builds">
        {(Object.keys(filters) as (keyof typeof filters)[]).map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            className="tab"
            aria-selected={name === filter}
            onClick={() => setFilter(name)}
          >
            {name[0]?.toUpperCase()}
            {name.slice(1)}
          </button>
        ))}
      </div>
      <Shown query={builds} what="builds">
        {(rows) => {
          const shown = rows.filter(({ status }) => filters[filter](status));
          return shown.length === 0 ? <Empty title="No such build." /> : <BuildTable rows={shown} />;
        }}
      </Shown>
    </>
  );
}
