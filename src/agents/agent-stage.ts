import { z } from "zod";
import type { AgentHostRequest } from "../agent-host/protocol.ts";
import { WavesmithError } from "../domain/errors.ts";
import type { StageSpec } from "../sandbox/port.ts";
import type { AgentStageRequest } from "./port.ts";

const outputLimitBytes = 8 * 1024 * 1024;
/** The longest single argument that Linux accepts (MAX_ARG_STRLEN). */
const maxScriptBytes = 128 * 1024 - 1;

/**
 * After this much silence an agent counts as stalled. It is long because a model may think and a
 * provider may be busy.
 */
const idleMs = 15 * 60_000;
const graceMs = 10_000;
/** How long to wait for a person, leaving some of the stage's time for the work. */
const maxAskMs = 10 * 60_000;
const askMs = ({ timeoutMs }: AgentStageRequest): number => Math.min(maxAskMs, Math.floor(timeoutMs / 2));

/**
 * Builds the stage that runs an agent. `sh -e` runs a `run:` script, so that a failing line in its
 * middle fails the task, as in a CI system; a command gets the prompt on its stdin. Fails with
 * `unsupported` without a runtime.
 */
export function agentStage(request: AgentStageRequest): StageSpec {
  const program = request.run === null ? agentProgram(request) : scriptProgram(request.run, request);
  return {
    ...program,
    cwd: request.treePath,
    env: { ...request.env, ...contractEnvironment(request), ...modelEnvironment(request) },
    timeoutMs: request.timeoutMs,
    outputLimitBytes,
  };
}

/** Builds the stage that continues an agent's session, see `Agents`. */
export function sessionStage(request: AgentStageRequest): StageSpec {
  const runtime = request.spec?.runtime;
  if (request.run !== null || (runtime !== "acp" && runtime !== "builtin")) {
    throw new WavesmithError("unsupported", `the role ${request.role} has no agent with a session`, {
      remedy: "only agents of the runtimes acp and builtin have sessions",
    });
  }
  const argv = ["sh", "-c", 'exec node "$WAVESMITH_PROGRAMS/agent-host.mjs" chat'];
  return { ...agentStage(request), name: "session", argv };
}

function scriptProgram(run: string, request: AgentStageRequest): Program {
  refuseLong(run, "`run:` script", request.role);
  return { name: "run", argv: ["sh", "-e", "-c", run], stdin: null };
}

type Program = Pick<StageSpec, "name" | "argv" | "stdin" | "openStdin">;

function agentProgram(request: AgentStageRequest): Program {
  const { spec } = request;
  if (spec?.runtime === "builtin") return hostProgram(request, 'exec node "$WAVESMITH_PROGRAMS/builtin-agent.mjs"');
  if (spec?.runtime === "acp" && spec.command !== null) return hostProgram(request, spec.command);
  return commandProgram(request);
}

/** The agent host, which drives an ACP agent from inside the sandbox. */
function hostProgram(request: AgentStageRequest, command: string): Program {
  refuseLong(command, "command", request.role);
  const inSandbox = (path: string) => `${request.workspaceRoot}/${path}`;
  const hostRequest: AgentHostRequest = {
    command,
    prompt: request.pack.prompt,
    cwd: inSandbox(request.treePath),
    home: inSandbox(request.homePath),
    model: request.spec?.model ?? null,
    effort: request.spec?.effort ?? null,
    mcp: request.spec?.mcp ?? [],
    skills: request.spec?.skills ?? [],
    images: request.images,
    result:
      request.resultSchema === null ? null : { schema: request.resultSchema, file: inSandbox(request.resultFilePath) },
    readable: [request.workspaceRoot],
    readOnly: request.readOnly,
    ask: request.answersPath === null ? null : { folder: inSandbox(request.answersPath), waitMs: askMs(request) },
    idleMs,
    graceMs,
  };
  const script = 'exec node "$WAVESMITH_PROGRAMS/agent-host.mjs"';
  // A person's messages follow on stdin, which the agent and its commands cannot write.
  const stdin = `${JSON.stringify(hostRequest)}\n`;
  return { name: "agent", argv: ["sh", "-c", script], stdin, openStdin: true };
}

/** A `run:` script needs no model. */
function modelEnvironment({ run, modelToken, providerTools }: AgentStageRequest): Record<string, string> {
  if (run !== null) return {};
  const tools = typeof providerTools === "string" ? providerTools : providerTools.join(",");
  return { WAVESMITH_MODEL_TOKEN: modelToken, WAVESMITH_MODEL_TOOLS: tools };
}

function commandProgram({ spec, role, pack }: AgentStageRequest): Program {
  if (spec === null) {
    throw new WavesmithError("unsupported", `the role ${role} has no runtime`, {
      remedy: `give the plan \`agents: { ${role}: { runtime: command, command: "…" } }\`, or a \`default\``,
    });
  }
  if (spec.runtime !== "command" || spec.command === null) {
    const lack =
      spec.runtime === "command"
        ? "has the runtime command and no command"
        : `has the runtime ${spec.runtime} and no command`;
    throw new WavesmithError("unsupported", `the role ${role} ${lack}`, {
      remedy: `use \`agents: { ${role}: { runtime: command, command: "…" } }\``,
    });
  }
  refuseLong(spec.command, "command", role);
  return { name: "agent", argv: ["sh", "-c", spec.command], stdin: pack.prompt };
}

function refuseLong(script: string, what: string, role: string): void {
  if (Buffer.byteLength(script) <= maxScriptBytes) return;
  throw new WavesmithError("unsupported", `the ${what} of the role ${role} is longer than 128 KiB`, {
    remedy: "put it into a file of the source and run that",
  });
}

/** The environment of the command runtime: absolute paths inside the sandbox. */
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
