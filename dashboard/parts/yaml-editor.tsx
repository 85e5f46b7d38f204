import { type KeyboardEvent, useRef } from "react";
import type { TextFault } from "./fault-list.tsx";

interface YamlEditorProps {
  readonly id: string;
  readonly label: string;
  readonly text: string;
  readonly faults: readonly TextFault[];
  /** Whether it is small, for a text of a few lines. */
  readonly isShort?: boolean;
  onChange(text: string): void;
}

/** A text in YAML, with its faults at their lines. A `FaultList` of the same id belongs to it. */
export function YamlEditor({ id, label, text, faults, isShort = false, onChange }: YamlEditorProps) {
  const gutter = useRef<HTMLDivElement>(null);
  const wasEscaped = useRef(false);
  const lines = text.split("\n").length;
  const faultsAt = new Map<number, string>();
  for (const { line, message } of faults)
    if (line !== null) faultsAt.set(line, [faultsAt.get(line), message].filter(Boolean).join("\n"));
  const indent = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    const isLeaving = wasEscaped.current;
    wasEscaped.current = event.key === "Escape";
    if (event.key !== "Tab" || event.shiftKey || event.ctrlKey || isLeaving) return;
    const area = event.currentTarget;
    if (area.selectionStart === 0 && text === "") return; // Tab leaves an empty editor.
    event.preventDefault();
    const { selectionStart, selectionEnd } = area;
    area.setRangeText("  ", selectionStart, selectionEnd, "end");
    onChange(area.value);
  };
  return (
    <div className="editor card" data-short={isShort || undefined}>
      <div ref={gutter} className="editor-gutter" aria-hidden="true">
        {Array.from({ length: lines }, (_, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a line is its number
          <div key={index} data-fault={faultsAt.has(index + 1) || undefined} title={faultsAt.get(index + 1)}>
            {index + 1}
          </div>
        ))}
      </div>
      <textarea
        id={id}
        className="editor-text"
        aria-label={label}
        aria-describedby={`${id}-keys ${id}-faults`}
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
      <span id={`${id}-keys`} className="hidden">
        Tab indents. To leave the editor, press Escape and then Tab.
      </span>
    </div>
  );
}
