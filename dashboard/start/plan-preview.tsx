import type { ApiType } from "../../src/client/client.ts";
import { plainText } from "../parts/plain-text.ts";
import { goToLine } from "./plan-editor.tsx";

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
      <div id="plan-faults" aria-live="polite" className="stack" style={{ gap: "0.4rem" }}>
        {faults.length > 0 && (
          <h2>
            {faults.length} {faults.length === 1 ? "fault" : "faults"}
          </h2>
        )}
        {faults.map(({ line, path, message }) => (
          <button
            key={`${line} ${path} ${message}`}
            type="button"
            className="fault"
            data-tone="bad"
            disabled={line === null}
            onClick={() => line !== null && goToLine(line)}
          >
            <span className="row wrap">
              {line !== null && <strong className="num">line {line}</strong>}
              {path !== "" && <code className="tiny">{path}</code>}
            </span>
            <span>{plainText(message)}</span>
          </button>
        ))}
        {warnings.map((warning) => (
          <div key={warning} className="notice" data-tone="wait">
            {warning}
          </div>
        ))}
      </div>
      {count > 0 && (
        <section className="stack" style={{ gap: "0.5rem" }} aria-label="Waves of this plan">
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
