import type { ReactNode } from "react";
import { Failure } from "../parts/states.tsx";
import { YamlEditor } from "../parts/yaml-editor.tsx";
import { PlanPreview, planEditorId } from "./plan-preview.tsx";
import { useCheckedPlan } from "./use-checked-plan.ts";

interface PlanWorkbenchProps {
  readonly text: string;
  readonly onChange: (text: string) => void;
  /** Above the editor. */
  readonly head?: ReactNode;
  /** Below the preview; `isSound` if the plan has been checked and has no faults. */
  readonly children: (isSound: boolean) => ReactNode;
}

/** A plan in an editor, and beside it its faults and its waves as they are now. */
export function PlanWorkbench({ text, onChange, head, children }: PlanWorkbenchProps) {
  const { check, error, isChecking } = useCheckedPlan(text);
  const faults = check?.faults ?? [];
  return (
    <div className="start">
      <div className="stack">
        {head}
        <YamlEditor id={planEditorId} label="The plan, in YAML" text={text} faults={faults} onChange={onChange} />
      </div>
      <div className="stack">
        <Failure error={error} />
        {check !== undefined && <PlanPreview check={check} />}
        {children(check !== undefined && faults.length === 0 && !isChecking && error === null)}
      </div>
    </div>
  );
}
