import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { diffQuery } from "../api/queries.ts";
import { Empty, Loading, Shown } from "../parts/states.tsx";

const Diff = lazy(() => import("../changes/diff-view.tsx").then((module) => ({ default: module.DiffView })));

/** The diff of a task. */
export function TaskChanges({
  build,
  detail,
}: {
  readonly build: ApiType<"Build">;
  readonly detail: ApiType<"TaskDetail">;
}) {
  const has = detail.commit !== null || detail.eachAttempt.some(({ commit }) => commit !== null);
  const diff = useQuery({ ...diffQuery(build.id, { task: detail.id }), enabled: has });
  if (!has) return <Empty title="No changes yet." />;
  return (
    <div className="side-body stack">
      <Link to="/builds/$id/changes" params={{ id: build.id }} search={{ task: detail.id }} className="small">
        Open beside its files
      </Link>
      <Shown query={diff} what="its changes">
        {(text) =>
          text === "" ? (
            <Empty title="It made no changes." />
          ) : (
            <Suspense fallback={<Loading what="the diff viewer" />}>
              <Diff text={text} layout="unified" />
            </Suspense>
          )
        }
      </Shown>
    </div>
  );
}
