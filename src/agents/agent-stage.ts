import { z } from "zod";
import { WavesmithError } from "../domain/errors.ts";
import type { StageSpec } from "../sandbox/port.ts";
import type { AgentStageRequest } from "./port.ts";

const outputLimitBytes = 8 * 1024 * 1024;
/** Linux refuses a longer single argument (MAX_ARG_STRLEN). */
const longestScriptBytes = 128 * 1024 - 1;

/**
 * The stage that runs an agent. A `run:` script runs with `sh -e`, so that a failing line in its middle fails the task
 * as it would in a CI system; a command gets the prompt on its stdin. Fails with `unsupported` for other runtimes.
 */
export function agentStage(request: AgentStageRequest): StageSpec {
  const program = request.run === null ? commandProgram(request) : scriptProgram(request.run, request);
  return {
    ...program,
    cwd: request.treePath,
    env: { ...request.env, ...contractEnvironment(request) },
    timeoutMs: request.timeoutMs,
    outputLimitBytes,
  };
}

function scriptProgram(run: string, request: AgentStageRequest): Pick<StageSpec, "name" | "argv" | "stdin"> {
  refuseLong(run, "`run:` script", request.role);
  return { name: "run", argv: ["sh", "-e", "-c", run], stdin: null };
}

function commandProgram({ spec, role, pack }: AgentStageRequest): Pick<StageSpec, "name" | "argv" | "stdin"> {
  if (spec === null) {
    throw new WavesmithError("unsupported", `the role ${role} has no runtime`, {
      remedy: `give the plan \`agents: { ${role}: { runtime: command, command: "…" } }\`, or a \`default\``,
    });
  }
  if (spec.runtime !== "command" || spec.command === null) {
    const lack =
      spec.runtime === "command"
        ? "has the runtime command and no command"
        : `wants the runtime ${spec.runtime}, which is not here yet`;
    throw new WavesmithError("unsupported", `the role ${role} ${lack}`, {
      remedy: `use \`agents: { ${role}: { runtime: command, command: "…" } }\``,
    });
  }
  refuseLong(spec.command, "command", role);
  return { name: "agent", argv: ["sh", "-c", spec.command], stdin: pack.prompt };
}

function refuseLong(script: string, what: string, role: string): void {
  if (Buffer.byteLength(script) <= longestScriptBytes) return;
  throw new WavesmithError("unsupported", `the ${what} of the role ${role} is longer than 128 KiB`, {
    remedy: "put it into a file of the source and call that",
  });
}

/** The contract of the command runtime: absolute paths inside the sandbox. */
function contractEnvironment(request: AgentStageRequest): Record<string, string> {
  const inSandbox = (path: string) => `${request.workspaceRoot}/${path}`;
  const task = taskKeyOf(request.pack.taskFile);
  return {
    WAVESMITH_TASK_FILE: inSandbox(request.taskFilePath),
    WAVESMITH_RESULT_FILE: inSandbox(request.resultFilePath),
    WAVESMITH_WORKSPACE: inSandbox(request.treePath),
    WAVESMITH_ROLE: request.role,
    ...(task === null ? {} : { WAVESMITH_TASK: task }),
  };
}

const packedTaskSchema = z.object({ task: z.object({ id: z.string() }).nullable() });

/** A fix and a review have no task of their own. */
function taskKeyOf(taskFile: string): string | null {
  return packedTaskSchema.parse(JSON.parse(taskFile)).task?.id ?? null;
}
