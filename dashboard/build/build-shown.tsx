import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useLiveBuild } from "../api/follow-build.ts";
import { buildQuery } from "../api/queries.ts";
import { ApiError } from "../api/request.ts";
import { NotFound } from "../parts/not-found.tsx";
import { Shown } from "../parts/states.tsx";

interface BuildShownProps {
  readonly id: string;
  readonly children: (build: ApiType<"Build">) => ReactNode;
}

/** A page about a build, which is kept up to date. */
export function BuildShown({ id, children }: BuildShownProps) {
  useLiveBuild(id);
  const build = useQuery(buildQuery(id));
  if (build.error instanceof ApiError && build.error.status === 404)
    return <NotFound what={`There is no build ${id}.`} />;
  return (
    <Shown query={build} what="the build">
      {children}
    </Shown>
  );
}
