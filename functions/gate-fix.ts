import { attemptStart } from "./attempt-start.ts";
import type { FixEvent } from "./events.ts";
import type { Flow } from "./flow.ts";

export const gateFix = (flow: Flow) =>
  attemptStart<FixEvent>(flow, {
    id: "gate-fix",
    name: "Gate: hand its findings to the fixer",
    trigger: "agent/quality.fix",
    claiming: ({ round, waveNumber, gate }) => `claim fix ${round} of wave ${waveNumber}, for the ${gate} gate`,
    facts: ({ buildId, waveNumber: wave, gate, round }) => ({ buildId, wave, gate, round }),
  });
