import { type KeyboardEvent, useRef } from "react";
import type { ApiType } from "../../src/client/client.ts";

interface PlanEditorProps {
  readonly text: string;
  readonly faults: readonly ApiType<"PlanFault">[];
  onChange(text: string): void;
}

/** A plan as text, with its faults at their lines. */
export function PlanEditor({ text, faults, onChange }: PlanEditorProps) {
  const gutter = useRef<HTMLDivElement>(null);
  const lines = text.split("\n").length;
  const faultsAt = new Map<number, string>();
  for (const { line, message } of faults)
    if (line !== null) faultsAt.set(line, [faultsAt.get(line), message].filter(Boolean).join("\n"));
  const indent = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.key !== "Tab" || event.shiftKey || event.ctrlKey) return;
    const area = event.currentTarget;
    if (area.selectionStart === 0 && text === "") return; // Tab leaves an empty editor.
    event.preventDefault();
    const { selectionStart, selectionEnd } = area;
    area.setRangeText("  ", selectionStart, selectionEnd, "end");
    onChange(area.value);
  };
  return (
    <div className="editor card">
      <div ref={gutter} className="editor-gutter" aria-hidden="true">
        {Array.from({ length: lines }, (_, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a line is its number
          <div key={index} data-fault={faultsAt.has(index + 1) || undefined} title={faultsAt.get(index + 1)}>
            {index + 1}
          </div>
        ))}
      </div>
      <textarea
        id="plan-text"
        className="editor-text"
        aria-label="The plan, in YAML"
        aria-describedby="plan-faults"
        spellCheck={false}
        autoCapitalize="off"
        wrap="off"
        value={text}
        onKeyDown={indent}
        onScroll={({ currentTarget }) => {
          if (gutter.current !== null) gutter.current.scrollTop = currentTarget.scrollTop;
        }}
        onChange={({ target }) => onChange(target.value)}
      />
    </div>
  );
}

/** Puts the cursor of the editor at a line. */
export function goToLine(line: number): void {
  const area = document.getElementById("plan-text");
  if (!(area instanceof HTMLTextAreaElement)) return;
  const lines = area.value.split("\n");
  const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
  area.scrollTop = Math.max(0, (line - 6) * 20);
}
