import type { ReactNode } from "react";
import { plainText } from "./plain-text.ts";

/** A fault in a text. */
export interface TextFault {
  /** The key that is wrong; empty for the text as a whole. */
  readonly path: string;
  readonly line: number | null;
  readonly message: string;
}

interface FaultListProps {
  /** The id of the text's editor. */
  readonly id: string;
  readonly faults: readonly TextFault[];
  readonly children?: ReactNode;
}

/** The faults of a text; a click on one goes to its line in the editor. */
export function FaultList({ id, faults, children }: FaultListProps) {
  return (
    <div id={`${id}-faults`} aria-live="polite" className="stack tight">
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
          onClick={() => line !== null && goToLine(id, line)}
        >
          <span className="row wrap">
            {line !== null && <strong className="num">line {line}</strong>}
            {path !== "" && <code className="tiny">{path}</code>}
          </span>
          <span>{plainText(message)}</span>
        </button>
      ))}
      {children}
    </div>
  );
}

/** Puts the cursor of an editor at a line. */
function goToLine(id: string, line: number): void {
  const area = document.getElementById(id);
  if (!(area instanceof HTMLTextAreaElement)) return;
  const lines = area.value.split("\n");
  const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
  area.scrollTop = Math.max(0, (line - 6) * 20);
}
