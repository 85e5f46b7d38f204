import type { ApiType } from "../../src/client/client.ts";
import { durationText } from "../parts/times.tsx";

/** A task's instructions and checks, as written in the plan. */
export function TaskOrder({ task }: { readonly task: ApiType<"PlanTask"> }) {
  const { instructions, run, acceptance, writes, timeoutMs, retries } = task;
  return (
    <div className="side-body stack">
      {instructions !== null && (
        <section className="stack" style={{ gap: "0.4rem" }}>
          <h3>Instructions</h3>
          <p className="small instructions">{instructions}</p>
        </section>
      )}
      {run !== null && (
        <section className="stack" style={{ gap: "0.4rem" }}>
          <h3>Script</h3>
          <pre className="output">{run}</pre>
        </section>
      )}
      {acceptance.length > 0 && (
        <section className="stack" style={{ gap: "0.4rem" }}>
          <h3>Accepted when</h3>
          <ul className="stack" style={{ gap: "0.5rem" }}>
            {acceptance.map(({ text, check }) => (
              <li key={text} className="finding">
                <div className="small">{text}</div>
                {check === null ? (
                  <div className="tiny faint">read by the critic</div>
                ) : (
                  <pre className="tiny mono soft check">{check.trim()}</pre>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      <dl className="facts">
        <dt>May write</dt>
        <dd className="mono">{writes === null ? "anything" : writes.join(", ")}</dd>
        <dt>Time limit</dt>
        <dd>{durationText(timeoutMs)}</dd>
        <dt>Retries</dt>
        <dd>{retries}</dd>
      </dl>
    </div>
  );
}
