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
  if (kind === "question") return { word: "question", text: text ?? "An agent has a question." };
  if (kind === "failed") return { word: "failed", text: "The build failed." };
  if (decision === "plan") return { word: "approval", text: "The drafted plan is waiting for your approval." };
  if (decision === "wave")
    return { word: "approval", text: `Wave ${wave} passed its gates and is waiting for approval.` };
  return { word: "paused", text: "The build is waiting to be resumed." };
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
        <div id={`${idOf(item)}-text`}>
          <Link to="/builds/$id" params={{ id: buildId }} className="strong">
            {project}
          </Link>{" "}
          <span>{text}</span>
        </div>
        <div className="small soft">
          {typeof reason === "string" && reason !== "" && <span className="reason">{reason} · </span>}
          <Ago time={since} />
          {deadlineAt === undefined ? (
            kind !== "failed" && " · waiting for your decision"
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
  const { kind, decision, question = 0, buildId } = item;
  const shared = { about: `${idOf(item)}-text`, isBusy: steering.isPending };
  if (kind === "question") {
    const answer = (word: "allow" | "deny") => () => steering.mutate({ act: "answer", question, answer: word });
    return (
      <div className="row">
        <Answer {...shared} word="yes" isPrimary label="Allow once" onGive={answer("allow")} />
        <Answer {...shared} word="no" label="Deny" onGive={answer("deny")} />
      </div>
    );
  }
  if (kind === "failed" || decision === null) {
    const act = kind === "failed" ? "retry" : "resume";
    const label = act === "retry" ? "Retry" : "Resume";
    return (
      <div className="row">
        <Answer {...shared} word="yes" label={label} onGive={() => steering.mutate({ act })} />
      </div>
    );
  }
  return (
    <div className="row">
      <Answer {...shared} word="yes" isPrimary label="Approve" onGive={() => steering.mutate({ act: "approve" })} />
      <Answer {...shared} word="no" label="Reject…" onGive={() => setRejecting(true)} />
      {isRejecting && <RejectDialog buildId={buildId} what={decision} onClose={() => setRejecting(false)} />}
    </div>
  );
}

interface AnswerProps {
  /** The id of the text that says what the answer is about. */
  readonly about: string;
  readonly isBusy: boolean;
  /** The answer that the keys `a` and `d` give. */
  readonly word: "yes" | "no";
  readonly label: string;
  readonly isPrimary?: boolean;
  readonly onGive: () => void;
}

function Answer({ about, isBusy, word, label, isPrimary = false, onGive }: AnswerProps) {
  return (
    <button
      type="button"
      aria-describedby={about}
      className={isPrimary ? "button primary" : "button"}
      data-answer={word}
      disabled={isBusy}
      onClick={onGive}
    >
      {label}
    </button>
  );
}
