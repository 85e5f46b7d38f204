import type { ApiType } from "../../src/client/client.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Output } from "../parts/output.tsx";
import { plainText } from "../parts/plain-text.ts";
import { durationText } from "../parts/times.tsx";

/** The evidence for a verdict: the command, its exit code, the test counts, the last output. */
export function EvidenceView({ evidence }: { readonly evidence: ApiType<"GateEvidence"> }) {
  const { command, exitCode, signal, timedOut, durationMs, tests, notes, outputTail } = evidence;
  const end = timedOut ? "ran out of time" : signal !== null ? `killed by ${signal}` : `exit ${exitCode ?? "unknown"}`;
  return (
    <section className="stack tight">
      <h3>Evidence</h3>
      {tests !== null && (
        <div className="row wrap counts">
          <Count value={tests.passed} what="passed" tone="good" />
          <Count value={tests.failed} what="failed" tone={tests.failed > 0 ? "bad" : "idle"} />
          {tests.skipped > 0 && <Count value={tests.skipped} what="skipped" tone="wait" />}
          <span className="faint tiny">
            of {tests.total} tests{tests.source === "runner" && ", estimated from its summary"}
          </span>
        </div>
      )}
      {command !== null && (
        <div className="command row">
          <code className="grow">{command}</code>
          <CopyButton text={command} label="Copy" />
        </div>
      )}
      <div className="tiny soft">
        {command !== null && `${end} · `}
        {durationText(durationMs)}
      </div>
      {notes.length > 0 && (
        <ul className="small soft notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {outputTail !== "" && <Output text={plainText(outputTail)} />}
    </section>
  );
}

function Count({ value, what, tone }: { readonly value: number; readonly what: string; readonly tone: string }) {
  return (
    <span className="count-box" data-tone={tone}>
      <strong className="num">{value}</strong> {what}
    </span>
  );
}
