import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSteering } from "../api/actions.ts";
import { Failure } from "../parts/states.tsx";
import { Left } from "../parts/times.tsx";
import { useKeys } from "../shell/keyboard.ts";
import { RejectDialog } from "./reject-dialog.tsx";

/** The build's question to the reader, with buttons to answer it. */
export function Decision({ build }: { readonly build: ApiType<"Build"> }) {
  return (
    <>
      {build.questions.map((question) => (
        <Question key={question.id} build={build} question={question} />
      ))}
      {build.status === "waiting" && <Approval build={build} />}
    </>
  );
}

function Question({
  build,
  question,
}: {
  readonly build: ApiType<"Build">;
  readonly question: ApiType<"Build">["questions"][number];
}) {
  const steering = useSteering(build.id);
  const answer = (word: "allow" | "deny"): void =>
    steering.mutate({ act: "answer", question: question.id, answer: word });
  useKeys({ a: () => answer("allow"), d: () => answer("deny") });
  return (
    <div className="decision" data-tone="wait">
      <div className="grow">
        <strong>{question.from} asks: </strong>
        <span className="mono small">{question.text}</span>
        <div className="small soft">
          {question.reason} · denied <Left until={question.deadlineAt} /> if nobody answers
        </div>
        <Failure error={steering.error} />
      </div>
      <div className="row">
        <button type="button" className="button primary" disabled={steering.isPending} onClick={() => answer("allow")}>
          Allow once
        </button>
        <button type="button" className="button" disabled={steering.isPending} onClick={() => answer("deny")}>
          Deny
        </button>
      </div>
    </div>
  );
}

function Approval({ build }: { readonly build: ApiType<"Build"> }) {
  const [isRejecting, setRejecting] = useState(false);
  const steering = useSteering(build.id);
  const wave = build.waves.at(-1);
  const what = wave?.status !== "waiting" ? null : /its plan/.test(build.phase) ? "plan" : "wave";
  const approve = (): void => steering.mutate({ act: "approve" });
  useKeys(what === null ? {} : { a: approve, d: () => setRejecting(true) });
  return (
    <div className="decision" data-tone="wait">
      <div className="grow">
        <strong>
          {what === null
            ? "This build waits to be resumed."
            : what === "plan"
              ? "Is this plan good?"
              : `Is wave ${wave?.number} good?`}
        </strong>
        <div className="small soft">
          {what === null
            ? (build.reason ?? "It goes on where it was.")
            : what === "plan"
              ? "The planner's draft is below. Nothing runs until you approve it."
              : "Its gates passed. Once approved, it becomes main. It waits until you decide."}{" "}
          {what !== "wave" && (
            <Link to="/builds/$id/plan" params={{ id: build.id }}>
              Edit the plan
            </Link>
          )}
          {what === "wave" && (
            <Link to="/builds/$id/changes" params={{ id: build.id }} search={{ wave: wave?.number ?? 1 }}>
              See its changes
            </Link>
          )}
        </div>
        <Failure error={steering.error} />
      </div>
      {what === null ? (
        <button
          type="button"
          className="button primary"
          disabled={steering.isPending}
          onClick={() => steering.mutate({ act: "resume" })}
        >
          Resume
        </button>
      ) : (
        <div className="row">
          <button type="button" className="button primary" disabled={steering.isPending} onClick={approve}>
            Approve <kbd>a</kbd>
          </button>
          <button type="button" className="button" onClick={() => setRejecting(true)}>
            Reject… <kbd>d</kbd>
          </button>
        </div>
      )}
      {isRejecting && what !== null && (
        <RejectDialog buildId={build.id} what={what} onClose={() => setRejecting(false)} />
      )}
    </div>
  );
}
