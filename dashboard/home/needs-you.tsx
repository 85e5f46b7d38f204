import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSteering } from "../api/actions.ts";
import { RejectDialog } from "../build/reject-dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { plainText } from "../parts/plain-text.ts";
import { Failure } from "../parts/states.tsx";
import { Ago, Left } from "../parts/times.tsx";
import { useKeys } from "../shell/keyboard.ts";

const idOf = ({ kind, buildId, question }: ApiType<"InboxItem">): string => `${kind}-${buildId}-${question ?? ""}`;

/** Everything that waits for a person. j and k move, a and d decide, Enter opens. */
export function NeedsYou({ items }: { readonly items: readonly ApiType<"InboxItem">[] }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const navigate = useNavigate();
  const index = Math.max(
    0,
    items.findIndex((item) => idOf(item) === chosen),
  );
  const move = (step: number): void => {
    const next = items[Math.min(items.length - 1, Math.max(0, chosen === null ? 0 : index + step))];
    if (next === undefined) return;
    setChosen(idOf(next));
    document.getElementById(idOf(next))?.scrollIntoView({ block: "nearest" });
  };
  const press = (word: "yes" | "no"): void =>
    document
      .getElementById(chosen ?? "")
      ?.querySelector<HTMLButtonElement>(`[data-answer=${word}]`)
      ?.click();
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    a: () => press("yes"),
    d: () => press("no"),
    Enter: () => {
      const item = items[index];
      if (chosen !== null && item !== undefined) void navigate({ to: "/builds/$id", params: { id: item.buildId } });
    },
  });
  if (items.length === 0) {
    return (
      <div className="card all-clear" data-tone="good">
        <Icon name="check" size={20} />
        <span>Nothing needs you.</span>
      </div>
    );
  }
  return (
    <ul className="card list">
      {items.map((item) => (
        <Item key={idOf(item)} item={item} isChosen={idOf(item) === chosen} />
      ))}
    </ul>
  );
}

function headOf({ kind, decision, wave, text }: ApiType<"InboxItem">): {
  readonly word: string;
  readonly text: string;
} {
  if (kind === "question") return { word: "question", text: text ?? "An agent asks something." };
  if (kind === "failed") return { word: "failed", text: "The build failed." };
  if (decision === "plan") return { word: "approval", text: "The drafted plan waits for your approval." };
  if (decision === "wave") return { word: "approval", text: `Wave ${wave} passed its gates and waits for approval.` };
  return { word: "paused", text: "The build waits to be resumed." };
}

function Item({ item, isChosen }: { readonly item: ApiType<"InboxItem">; readonly isChosen: boolean }) {
  const { buildId, project, since, reason, kind, deadlineAt, failedGate } = item;
  const { word, text } = headOf(item);
  const steering = useSteering(buildId);
  return (
    <li id={idOf(item)} className="list-item need" data-chosen={isChosen || undefined}>
      <span className="badge" data-tone={kind === "failed" ? "bad" : "wait"}>
        {word}
      </span>
      <div className="grow">
        <div>
          <Link to="/builds/$id" params={{ id: buildId }} className="strong">
            {project}
          </Link>{" "}
          <span>{text}</span>
        </div>
        <div className="small soft">
          {typeof reason === "string" && reason !== "" && <span className="reason">{reason} · </span>}
          <Ago time={since} />
          {deadlineAt === undefined ? (
            kind !== "failed" && " · waits until you decide"
          ) : (
            <>
              {" · denied "}
              <Left until={deadlineAt} /> if nobody answers
            </>
          )}
        </div>
        {kind === "failed" && failedGate !== null && (
          <Link to="/builds/$id" params={{ id: buildId }} search={{ gate: failedGate.id }} className="small plain why">
            <strong>{failedGate.gate}:</strong> {plainText(failedGate.finding ?? "failed")}
          </Link>
        )}
        <Failure error={steering.error} />
      </div>
      <Answers item={item} steering={steering} />
    </li>
  );
}

function Answers({
  item,
  steering,
}: {
  readonly item: ApiType<"InboxItem">;
  readonly steering: ReturnType<typeof useSteering>;
}) {
  const [isRejecting, setRejecting] = useState(false);
  const isBusy = steering.isPending;
  const { kind, decision, question = 0, buildId } = item;
  if (kind === "question") {
    const answer = (word: "allow" | "deny") => () => steering.mutate({ act: "answer", question, answer: word });
    return (
      <div className="row">
        <button type="button" className="button primary" data-answer="yes" disabled={isBusy} onClick={answer("allow")}>
          Allow once
        </button>
        <button type="button" className="button" data-answer="no" disabled={isBusy} onClick={answer("deny")}>
          Deny
        </button>
      </div>
    );
  }
  if (kind === "failed" || decision === null) {
    const act = kind === "failed" ? "retry" : "resume";
    return (
      <div className="row">
        <button
          type="button"
          className="button"
          data-answer="yes"
          disabled={isBusy}
          onClick={() => steering.mutate({ act })}
        >
          {act === "retry" ? "Retry" : "Resume"}
        </button>
      </div>
    );
  }
  return (
    <div className="row">
      <button
        type="button"
        className="button primary"
        data-answer="yes"
        disabled={isBusy}
        onClick={() => steering.mutate({ act: "approve" })}
      >
        Approve
      </button>
      <button type="button" className="button" data-answer="no" disabled={isBusy} onClick={() => setRejecting(true)}>
        Reject…
      </button>
      {isRejecting && <RejectDialog buildId={buildId} what={decision} onClose={() => setRejecting(false)} />}
    </div>
  );
}
