import type { ReactNode } from "react";
import type { Steering, useSteering } from "../api/actions.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure } from "../parts/states.tsx";

interface ConfirmDialogProps {
  readonly title: string;
  readonly yes: string;
  readonly no: string;
  readonly steering: ReturnType<typeof useSteering>;
  readonly what: Steering;
  readonly onClose: () => void;
  /** Tells the reader the consequences. */
  readonly children: ReactNode;
}

/** Says what will happen before it does. */
export function ConfirmDialog({ title, yes, no, steering, what, onClose, children }: ConfirmDialogProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="stack small soft">{children}</div>
      <Failure error={steering.error} />
      <div className="buttons">
        <button type="button" className="button" onClick={onClose}>
          {no}
        </button>
        <button
          type="button"
          className="button danger"
          disabled={steering.isPending}
          onClick={() => steering.mutate(what, { onSuccess: onClose })}
        >
          {yes}
        </button>
      </div>
    </Dialog>
  );
}
