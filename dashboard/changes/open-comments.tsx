import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { Failure } from "../parts/states.tsx";

/** How many comments nobody has dealt with yet, and the button that sends them to the fixer. */
export function OpenComments({
  build,
  comments,
}: {
  readonly build: ApiType<"Build">;
  readonly comments: readonly ApiType<"PersonsFindingRow">[];
}) {
  const open = comments.filter(({ state }) => state === "open");
  const { id, status } = build;
  const wave = build.waves.at(-1);
  const isWaiting = status === "waiting" && wave?.status === "waiting";
  const params = { path: { id } };
  const fix = useAction(["build", "inbox", "builds"], async () => {
    if (isWaiting) {
      const body = { by: "the dashboard", reason: reasonOf(open.length) };
      await dataOf(api.POST("/api/v1/builds/{id}/reject", { params, body }));
    }
    return dataOf(api.POST("/api/v1/builds/{id}/retry", { params, body: {} }));
  });
  if (open.length === 0) return null;
  const canSend = isWaiting || status === "failed";
  return (
    <div className="decision" data-tone="wait" role="status">
      <div className="grow">
        <strong>{open.length === 1 ? "1 comment is open." : `${open.length} comments are open.`}</strong>{" "}
        <span className="small soft">
          {isWaiting
            ? `Sending ${open.length === 1 ? "it" : "them"} rejects wave ${wave.number} and starts a fix.`
            : status === "failed"
              ? "A retry gives them to the fixer."
              : "They go to the next fix; the wave cannot pass before that."}
        </span>
        <Failure error={fix.error} />
      </div>
      {canSend && (
        <button type="button" className="button primary" disabled={fix.isPending} onClick={() => fix.mutate()}>
          {isWaiting ? "Send to the fixer" : "Retry with them"}
        </button>
      )}
    </div>
  );
}

const reasonOf = (count: number): string => (count === 1 ? "see the comment" : `see the ${count} comments`);
