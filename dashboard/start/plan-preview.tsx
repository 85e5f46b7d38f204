import type { ApiType } from "../../src/client/client.ts";
import { FaultList } from "../parts/fault-list.tsx";

/** The id of the editor of the plan. */
export const planEditorId = "plan-text";

/** The waves that a plan makes, or what is wrong with it. */
export function PlanPreview({
  check: { waves, criticalPath, faults, warnings },
}: {
  readonly check: ApiType<"PlanCheck">;
}) {
  const critical = new Set(criticalPath);
  const count = waves.reduce((sum, { tasks }) => sum + tasks.length, 0);
  return (
    <>
      <FaultList id={planEditorId} faults={faults}>
        {warnings.map((warning) => (
          <div key={warning} className="notice" data-tone="wait">
            {warning}
          </div>
        ))}
      </FaultList>
      {count > 0 && (
        <section className="stack tight" aria-label="Waves of this plan">
          <h2>
            {waves.length} {waves.length === 1 ? "wave" : "waves"}, {count} {count === 1 ? "task" : "tasks"}
          </h2>
          <ol className="preview-waves">
            {waves.map(({ number, tasks }) => (
              <li key={number} className="card preview-wave">
                <h3 className="soft">Wave {number}</h3>
                {tasks.slice(0, 60).map((id) => (
                  <span key={id} className="preview-task clip" data-critical={critical.has(id) || undefined} title={id}>
                    {id}
                  </span>
                ))}
                {tasks.length > 60 && <span className="faint tiny">and {tasks.length - 60} more</span>}
              </li>
            ))}
          </ol>
          <p className="tiny faint">
            Tasks with a bar are on the critical path: {criticalPath.slice(0, 12).join(" → ")}
          </p>
        </section>
      )}
    </>
  );
}
