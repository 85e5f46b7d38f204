import { WavesmithError } from "../../domain/errors.ts";
import type { EventData } from "../../domain/events/events.ts";
import { quoteOutside } from "../../domain/quote-outside.ts";
import { ForgeError } from "../../forge/port.ts";
import { tellTask } from "../attempt/messages.ts";
import { requestBuild } from "../build/request/request-build.ts";
import { retryBuild } from "../build/retry-build.ts";
import { requestCancel } from "../build/stop/cancel-build.ts";
import type { Ports } from "../port.ts";
import { approveWave, rejectWave } from "../wave/decide-wave.ts";
import { findAtForge } from "./at-forge.ts";
import { projectOfBranch } from "./find-project.ts";
import { findAskedBranch } from "./offered-branch.ts";
import { requestAt } from "./standing-at-forge.ts";

export type ForgeCommand = EventData<"forge/command.given">;
type Verb = ForgeCommand["verb"];

const help =
  "Comments may begin with `/wavesmith build`, `retry`, `approve`, `reject REASON`, `cancel` or `tell TASK TEXT`.";

/** Carries out a command from a person who may push. Returns the answer to post. */
export async function takeCommand(ports: Ports, command: ForgeCommand, defaultDriver: string): Promise<string> {
  const { verb, buildId } = command;
  if (verb === "help") return help;
  if (verb === "build") return startFromText(ports, command, defaultDriver);
  if (buildId === undefined) return `\`${verb}\` needs an issue or a pull request of a build. ${help}`;
  return answered(() => steer(ports, { ...command, buildId, verb }));
}

/** Returns a lasting failure as the answer; throws a temporary one, so that it is tried again. */
async function answered(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof WavesmithError) || error.retryable || error.code === "internal") throw error;
    if (error instanceof ForgeError && error.retryAfterMs !== null) throw error;
    return [`That did not work: ${error.message}.`, ...(error.remedy === null ? [] : [error.remedy])].join(" ");
  }
}

interface Steering {
  readonly buildId: string;
  readonly verb: Exclude<Verb, "build" | "help">;
  readonly by: string;
  readonly text: string;
  readonly origin: string;
}

async function steer(ports: Ports, { buildId, verb, by, text, origin }: Steering): Promise<string> {
  switch (verb) {
    case "retry":
      await retryBuild(ports, buildId, { origin });
      return `Build ${buildId} runs again.`;
    case "approve":
      await approveWave(ports, buildId, { by, origin });
      return `Approved. Build ${buildId} goes on.`;
    case "reject":
      await rejectWave(ports, buildId, { by, origin, reason: text === "" ? "no reason was given" : text });
      return "Rejected. `/wavesmith retry` gives your reason to the fixer.";
    case "cancel":
      return (await requestCancel(ports, buildId, `cancelled by ${by} on GitHub`, { origin }))
        ? `Build ${buildId} is being cancelled.`
        : `Build ${buildId} has already ended.`;
    case "tell": {
      const [, task = "", said = ""] = /^(\S+)\s+([\s\S]+)$/.exec(text) ?? [];
      if (said === "") return "Write `/wavesmith tell TASK TEXT`.";
      const { way } = await tellTask(ports, buildId, task, { text: said, by, urgent: false, origin });
      return way === "now" ? `The agent of ${task} reads it now.` : `The next attempt of ${task} reads it.`;
    }
  }
}

interface AskedBuild {
  readonly tenantId: string;
  readonly project: string;
  readonly repository: string;
  /** The issue, or the request, in which it was asked for. */
  readonly number: number;
  readonly origin: string;
  readonly by: string;
  readonly text: string;
}

/**
 * Starts a build from a text on a forge. For an issue it builds on the default branch, and its
 * request closes the issue; for a request it builds on that request's branch. Calling it again with
 * the same origin starts no second build. Returns the answer to post.
 */
export const startFromText = (ports: Ports, asked: AskedBuild, defaultDriver: string): Promise<string> =>
  answered(async () => {
    const { origin, by, text, repository } = asked;
    const id = `forge-build:${origin}`;
    const known = await ports.store.builds.find({ eventId: id });
    const { name: tenant } = await ports.store.tenants.get({ id: asked.tenantId });
    const brief = `${by} asks for this on ${repository}.\n\n${quoteOutside("the request", text.slice(0, 50_000))}`;
    const request = async () => {
      const where = await placeOfBuild(ports, asked);
      const data = { ...where, brief, requestedBy: `${by} on GitHub`, tenant, metadata: { origin } };
      return (await requestBuild(ports, { id, data }, defaultDriver)).buildId;
    };
    const buildId = known?.id ?? (await request());
    return `Build ${buildId} has started: it drafts a plan, which then waits for \`/wavesmith approve\` in a comment here.`;
  });

/** The project and the branch of a build that was asked for in an issue or a request. */
async function placeOfBuild(ports: Ports, asked: AskedBuild): Promise<Record<string, unknown>> {
  const { project, repository: repo, number } = asked;
  const place = await findAtForge(ports, repo);
  if (place === null) throw new WavesmithError("not-found", `there is no repository ${repo} any more`);
  const branch = await findAskedBranch(place, number);
  if (branch?.request == null) return { project, deliver: { forge: "github", repo, issue: number } };
  const { name, gitUrl, defaultBranch } = place.repository;
  const ofBranch = { repository: name, branch: branch.branch, defaultBranch };
  return {
    ...requestAt({ ...branch, repository: name, gitUrl }, { brief: "" }),
    project: await projectOfBranch(ports.store, { project }, ofBranch),
  };
}
