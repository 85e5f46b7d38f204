import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { promptQuery } from "../api/queries.ts";
import { Output } from "../parts/output.tsx";
import { plainText } from "../parts/plain-text.ts";
import { Shown } from "../parts/states.tsx";
import { durationText } from "../parts/times.tsx";

interface PromptProps {
  readonly buildId: string;
  readonly task: string;
  readonly attempt: number;
}

/** The whole text that an attempt's agent got, on request. */
export function PromptView({ buildId, task, attempt }: PromptProps) {
  const [isOpen, setOpen] = useState(false);
  const prompt = useQuery({ ...promptQuery(buildId, task, attempt), enabled: isOpen });
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary className="small">The full prompt of attempt {attempt}</summary>
      {isOpen && (
        <Shown query={prompt} what="the prompt">
          {(told) => (
            <div className="stack tight prompt">
              <p className="tiny faint">It shows the project's memory as it is now.</p>
              <Output text={plainText(told.prompt)} />
            </div>
          )}
        </Shown>
      )}
    </details>
  );
}

/** A task's instructions and checks, as written in the plan. */
export function TaskOrder({ task, children }: { readonly task: ApiType<"PlanTask">; readonly children: ReactNode }) {
  const { instructions, run, acceptance, writes, timeoutMs, retries } = task;
  return (
    <div className="side-body stack">
      {instructions !== null && (
        <section className="stack tight">
          <h3>Instructions</h3>
          <p className="small instructions">{instructions}</p>
        </section>
      )}
      {run !== null && (
        <section className="stack tight">
          <h3>Script</h3>
          <Output text={run} />
        </section>
      )}
      {acceptance.length > 0 && (
        <section className="stack tight">
          <h3>Accepted when</h3>
          <ul className="stack tight">
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
      {children}
    </div>
  );
}
