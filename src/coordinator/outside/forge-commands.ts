import { WavesmithError } from "../../domain/errors.ts";
import type { EventData } from "../../domain/events/events.ts";
import { quoteOutside } from "../../domain/quote-outside.ts";
import { tellTask } from "../attempt/messages.ts";
import { requestBuild } from "../build/request/request-build.ts";
import { retryBuild } from "../build/retry-build.ts";
import { requestCancel } from "../build/stop/cancel-build.ts";
import type { Ports } from "../port.ts";
import { approveWave, rejectWave } from "../wave/decide-wave.ts";

export type ForgeCommand = EventData<"forge/command.given">;
type Verb = ForgeCommand["verb"];

const help =
  "Comments may begin with `/wavesmith build`, `retry`, `approve`, `reject REASON`, `cancel` or `tell TASK TEXT`.";

/** Carries out a command from a person who may push. Returns the answer to post. */
export async function takeCommand(ports: Ports, command: ForgeCommand, defaultDriver: string): Promise<string> {
  const { verb, buildId } = command;
  if (verb === "help") return help;
  try {
    if (verb === "build") return await startFromText(ports, command, defaultDriver);
    if (buildId === undefined) return `\`${verb}\` needs a pull request of a build. ${help}`;
    return await steer(ports, { ...command, buildId, verb });
  } catch (error) {
    // Answer the person, except for temporary failures, which we retry.
    if (!(error instanceof WavesmithError) || error.retryable || error.code === "internal") throw error;
    return [`That did not work: ${error.message}.`, ...(error.remedy === null ? [] : [error.remedy])].join(" ");
  }
}

interface Steering {
  readonly buildId: string;
  readonly verb: Exclude<Verb, "build" | "help">;
  readonly by: string;
  readonly text: string;
}

async function steer(ports: Ports, { buildId, verb, by, text }: Steering): Promise<string> {
  switch (verb) {
    case "retry":
      await retryBuild(ports, buildId);
      return `Build ${buildId} runs again.`;
    case "approve":
      await approveWave(ports, buildId, { by });
      return `Approved. Build ${buildId} goes on.`;
    case "reject":
      await rejectWave(ports, buildId, { by, reason: text === "" ? "no reason was given" : text });
      return "Rejected. `/wavesmith retry` gives your reason to the fixer.";
    case "cancel":
      return (await requestCancel(ports, buildId, `cancelled by ${by} on GitHub`))
        ? `Build ${buildId} is being cancelled.`
        : `Build ${buildId} has already ended.`;
    case "tell": {
      const [, task = "", said = ""] = /^(\S+)\s+([\s\S]+)$/.exec(text) ?? [];
      if (said === "") return "Write `/wavesmith tell TASK TEXT`.";
      const { way } = await tellTask(ports, buildId, task, { text: said, by, urgent: false });
      return way === "now" ? `The agent of ${task} gets it now.` : `The next attempt of ${task} gets it.`;
    }
  }
}

interface AskedBuild {
  readonly tenantId: string;
  readonly project: string;
  readonly repository: string;
  readonly origin: string;
  readonly by: string;
  readonly text: string;
}

/**
 * Starts a build from a text on a forge. Calling it again with the same origin starts no second
 * build.
 */
export async function startFromText(ports: Ports, asked: AskedBuild, defaultDriver: string): Promise<string> {
  const { origin, project, by, text, repository } = asked;
  const { name: tenant } = await ports.store.tenants.get({ id: asked.tenantId });
  const brief = `${by} asks for this on ${repository}.\n\n${quoteOutside("the request", text.slice(0, 50_000))}`;
  const data = { brief, project, requestedBy: `${by} on GitHub`, tenant, metadata: { origin } };
  const { buildId } = await requestBuild(ports, { id: `forge-build:${origin}`, data }, defaultDriver);
  return `Build ${buildId} has started: \`wavesmith status ${buildId}\`.`;
}
