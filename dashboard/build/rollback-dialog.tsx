import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSteering } from "../api/actions.ts";
import { ConfirmDialog } from "./confirm-dialog.tsx";

interface RollbackDialogProps {
  readonly buildId: string;
  readonly waves: readonly ApiType<"GraphWave">[];
  /** The restore point that is chosen at first; by default the last one. */
  readonly point?: number;
  readonly onClose: () => void;
}

/** Chooses a restore point, and says what going back to it undoes. */
export function RollbackDialog({ buildId, waves, point, onClose }: RollbackDialogProps) {
  const points = [0, ...waves.filter(({ status }) => status === "passed").map(({ number }) => number)].slice(0, -1);
  const [chosen, setChosen] = useState(point ?? points.at(-1) ?? 0);
  const steering = useSteering(buildId);
  const later = waves.filter(({ number, status }) => number > chosen && status !== "planned");
  const tasks = new Set(later.flatMap((wave) => wave.tasks));
  return (
    <ConfirmDialog
      title="Roll back"
      yes={`Roll back to ${chosen === 0 ? "the beginning" : `wave ${chosen}`}`}
      no="Cancel"
      steering={steering}
      what={{ act: "rollback", wave: chosen }}
      onClose={onClose}
    >
      <label className="label">
        Back to
        <select className="field" value={chosen} onChange={({ target }) => setChosen(Number(target.value))}>
          {points.map((number) => (
            <option key={number} value={number}>
              {number === 0 ? "where the build began" : `the end of wave ${number}`}
            </option>
          ))}
        </select>
      </label>
      <p>
        {later.length === 1 ? "1 wave is" : `${later.length} waves are`} undone, and {tasks.size}{" "}
        {tasks.size === 1 ? "task is" : "tasks are"} pending again. Their commits stay under{" "}
        <code>refs/rescue/{buildId}/</code>, so <code>wavesmith rollback {buildId} --undo</code> brings them back until
        the build moves on. The build then waits for you to resume it.
      </p>
    </ConfirmDialog>
  );
}
