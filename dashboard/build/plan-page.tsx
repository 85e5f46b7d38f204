import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { buildQuery, planTextQuery } from "../api/queries.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { PageHead } from "../parts/page-head.tsx";
import { Failure, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { PlanWorkbench } from "../start/plan-workbench.tsx";

const route = getRouteApi("/builds/$id/plan");

/** The plan of a build, for editing and for continuing with the edited plan. */
export function PlanPage() {
  const { id } = route.useParams();
  const build = useQuery(buildQuery(id));
  const plan = useQuery(planTextQuery(id));
  const name = build.data?.project ?? id;
  return (
    <>
      <PageHead
        page={`Plan of ${name}`}
        title={
          <>
            <Link to="/builds/$id" params={{ id }} className="plain soft">
              {name}
            </Link>{" "}
            <span className="faint">/</span> Plan
          </>
        }
      >
        {build.data !== undefined && <StatusBadge status={build.data.status} />}
      </PageHead>
      <Shown query={plan} what="the plan">
        {(text) =>
          build.data === undefined ? null : <EditedPlan key={`${id} ${text}`} build={build.data} before={text} />
        }
      </Shown>
    </>
  );
}

function EditedPlan({ build, before }: { readonly build: ApiType<"Build">; readonly before: string }) {
  const [text, setText] = useState(before);
  const navigate = useNavigate();
  const { id, status } = build;
  const isAtWork = status === "running" || status === "queued" || status === "cancelling";
  const resume = useAction(["build", "builds", "inbox"], () =>
    dataOf(
      api.PUT("/api/v1/builds/{id}/plan", {
        params: { path: { id } },
        body: text,
        bodySerializer: (body) => body as string,
        headers: { "content-type": "application/yaml" },
      }),
    ),
  );
  const submit = (): void =>
    resume.mutate(undefined, { onSuccess: () => void navigate({ to: "/builds/$id", params: { id } }) });
  return (
    <PlanWorkbench text={text} onChange={setText}>
      {(isSound) => (
        <>
          <div className="notice" data-tone={isAtWork ? "wait" : "idle"}>
            {isAtWork
              ? "This build is at work, and its plan cannot be changed meanwhile. Cancel it first; its work is kept."
              : "Completed tasks that you leave as they are keep their work. Changed tasks, and those that depend on them, run again. The work of tasks that you remove stays in the tree."}
            {status === "waiting" && build.phase.includes("plan") && " Continuing also approves the plan."}
          </div>
          {resume.error !== null && <Failure error={resume.error} />}
          <div className="row wrap">
            <button
              type="button"
              className="button primary"
              disabled={!isSound || isAtWork || resume.isPending}
              onClick={submit}
            >
              {resume.isPending ? "Continuing…" : "Continue with this plan"}
            </button>
            <button type="button" className="button" disabled={text === before} onClick={() => setText(before)}>
              Undo my changes
            </button>
          </div>
        </>
      )}
    </PlanWorkbench>
  );
}
