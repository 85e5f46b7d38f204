import { placeholderFaults, promptKindOf, promptPlaceholders } from "../domain/prompts.ts";
import type { PlanFiles } from "./check-paths.ts";
import type { FaultSink, PlanPath } from "./fault-sink.ts";
import { asRecord, asText } from "./loose.ts";
import { didYouMean } from "./suggest.ts";

/** Checks the prompts that roles bring along: each part they ask for exists, and those they cannot do without are there. */
export function checkPrompts(plan: unknown, files: PlanFiles, sink: FaultSink): void {
  for (const [role, agent] of Object.entries(asRecord(asRecord(plan).agents))) {
    const { prompt } = asRecord(agent);
    const file = asText(asRecord(prompt).file);
    const template = file === null ? asText(prompt) : files.get(file);
    if (template != null) checkPrompt(role, template, ["agents", role, "prompt"], sink);
  }
}

function checkPrompt(role: string, template: string, path: PlanPath, sink: FaultSink): void {
  const kind = promptKindOf(role);
  const { required, optional } = promptPlaceholders[kind];
  const { unknown, missing } = placeholderFaults(kind, template);
  for (const name of unknown) {
    const hint =
      didYouMean(name, [...required, ...optional]) || `: there are ${[...required, ...optional].join(", ")}.`;
    sink.add("bad-prompt", path, `There is no part {{${name}}} in the prompt of the role ${role}${hint}`);
  }
  for (const name of missing) {
    sink.add("bad-prompt", path, `The prompt of the role ${role} lacks {{${name}}}: put it where that part belongs.`);
  }
}
