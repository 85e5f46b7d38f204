import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSteering } from "../api/actions.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { Key } from "../parts/key.tsx";
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

/** What the build waits for: a decision about its plan or a wave, or for somebody to resume it. */
type Wait = "plan" | "wave" | "resume";

function Approval({ build }: { readonly build: ApiType<"Build"> }) {
  const steering = useSteering(build.id);
  const isAsked = build.waves.at(-1)?.status === "waiting";
  const wait: Wait = !isAsked ? "resume" : /its plan/.test(build.phase) ? "plan" : "wave";
  return (
    <div className="decision" data-tone="wait">
      <div className="grow">
        <WaitText build={build} wait={wait} />
        <Failure error={steering.error} />
      </div>
      {wait === "resume" ? (
        <ActionButton action={steering} given={{ act: "resume" }} tone="primary">
          Resume
        </ActionButton>
      ) : (
        <ApprovalButtons buildId={build.id} what={wait} steering={steering} />
      )}
    </div>
  );
}

function WaitText({ build, wait }: { readonly build: ApiType<"Build">; readonly wait: Wait }) {
  const wave = build.waves.at(-1)?.number ?? 1;
  const heads = {
    plan: "Is this plan good?",
    wave: `Is wave ${wave} good?`,
    resume: "This build is waiting to be resumed.",
  };
  const texts = {
    plan: "The planner's draft is below. Nothing runs until you approve it.",
    wave: "Its gates passed. Once you approve it, it becomes main. It waits until you decide.",
    resume: build.reason ?? "It continues where it stopped.",
  };
  return (
    <>
      <strong>{heads[wait]}</strong>
      <div className="small soft">
        {texts[wait]}{" "}
        {wait === "wave" ? (
          <Link to="/builds/$id/changes" params={{ id: build.id }} search={{ wave }}>
            See its changes
          </Link>
        ) : (
          <Link to="/builds/$id/plan" params={{ id: build.id }}>
            Edit the plan
          </Link>
        )}
      </div>
    </>
  );
}

interface ApprovalButtonsProps {
  readonly buildId: string;
  readonly what: "plan" | "wave";
  readonly steering: ReturnType<typeof useSteering>;
}

function ApprovalButtons({ buildId, what, steering }: ApprovalButtonsProps) {
  const [isRejecting, setRejecting] = useState(false);
  useKeys({ a: () => steering.mutate({ act: "approve" }), d: () => setRejecting(true) });
  return (
    <div className="row">
      <ActionButton action={steering} given={{ act: "approve" }} tone="primary" keys="a">
        Approve
      </ActionButton>
      <button type="button" className="button" aria-keyshortcuts="d" onClick={() => setRejecting(true)}>
        Reject… <Key name="d" />
      </button>
      {isRejecting && <RejectDialog buildId={buildId} what={what} onClose={() => setRejecting(false)} />}
    </div>
  );
}
