import { attemptStart } from "./attempt-start.ts";
import type { ExecutionEvent } from "./events.ts";
import type { Flow } from "./flow.ts";

export const taskExecute = (flow: Flow) =>
  attemptStart<ExecutionEvent>(flow, {
    id: "task-execute",
    name: "Task: hand it to its agent",
    trigger: "agent/execution.*",
    claiming: ({ attempt, taskKey, waveNumber }) => `claim attempt ${attempt} of ${taskKey} in wave ${waveNumber}`,
    facts: ({ buildId, waveNumber: wave, taskKey: task, attempt, role }) => ({ buildId, wave, task, attempt, role }),
  });
