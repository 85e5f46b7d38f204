import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { planTextQuery } from "../api/queries.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { Failure, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { PlanWorkbench } from "../start/plan-workbench.tsx";
import { BuildShown } from "./build-shown.tsx";
import { PartHead } from "./part-head.tsx";

const route = getRouteApi("/builds/$id/plan");

/** The plan of a build, for editing and for continuing with the edited plan. */
export function PlanPage() {
  const { id } = route.useParams();
  const plan = useQuery(planTextQuery(id));
  return (
    <BuildShown id={id}>
      {(build) => (
        <>
          <PartHead buildId={id} project={build.project} part="Plan">
            <StatusBadge status={build.status} />
          </PartHead>
          <Shown query={plan} what="the plan">
            {(text) => <EditedPlan key={`${id} ${text}`} build={build} before={text} />}
          </Shown>
        </>
      )}
    </BuildShown>
  );
}

function EditedPlan({ build, before }: { readonly build: ApiType<"Build">; readonly before: string }) {
  const [text, setText] = useState(before);
  const navigate = useNavigate();
  const { id, status } = build;
  const isDone = status === "completed";
  // With the same plan, a completed build would only end again.
  const hasNothingToDo = isDone && text === before;
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
              ? "This build is running. Cancel it first to change its plan; its work is kept."
              : "Completed tasks that you leave as they are keep their work. Changed tasks, and those that depend on them, run again. The work of tasks that you remove stays in the tree."}
            {isDone && " This build has completed: add or change a task, and it continues from its result."}
            {status === "waiting" && build.phase.includes("plan") && " Continuing also approves the plan."}
          </div>
          <Failure error={resume.error} />
          <div className="row wrap">
            <button
              type="button"
              className="button primary"
              disabled={!isSound || isAtWork || hasNothingToDo || resume.isPending}
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
