import { type FormEvent, useState } from "react";
import { useSteering } from "../api/actions.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure } from "../parts/states.tsx";

interface RejectDialogProps {
  readonly buildId: string;
  readonly what: "wave" | "plan";
  readonly onClose: () => void;
}

/** Asks for the reason of a rejection, which a retry passes on. */
export function RejectDialog({ buildId, what, onClose }: RejectDialogProps) {
  const [reason, setReason] = useState("");
  const steering = useSteering(buildId);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    steering.mutate({ act: "reject", reason: reason.trim() }, { onSuccess: onClose });
  };
  return (
    <Dialog title={`Reject the ${what}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <p className="small soft">
          The wave is blocked, and its work is kept. A retry gives your reason to{" "}
          {what === "plan" ? "the planner, which drafts another plan" : "the fixer"}.
        </p>
        <textarea
          className="field"
          aria-label="Reason"
          placeholder="What is wrong, and what you want instead"
          value={reason}
          onChange={({ target }) => setReason(target.value)}
        />
        <Failure error={steering.error} />
        <div className="buttons">
          <button type="button" className="button" onClick={onClose}>
            Keep waiting
          </button>
          <button type="submit" className="button primary" disabled={reason.trim() === "" || steering.isPending}>
            Reject
          </button>
        </div>
      </form>
    </Dialog>
  );
}
