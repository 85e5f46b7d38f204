import { z } from "zod";
import { WavesmithError } from "../domain/errors.ts";
import { eventSchemas } from "../domain/events.ts";
import { networkOf } from "../domain/network.ts";
import { parsePlanValue } from "../plan/parse-plan.ts";
import { unsupportedFeatures } from "../plan/unsupported.ts";
import { refuseWithoutModels } from "./check-models.ts";
import type { Ports } from "./port.ts";
import { type BuildRequest, defaultTenant } from "./start-build.ts";

const requestSchema = eventSchemas["project/build.requested"].extend({
  /** The folder that relative paths of the plan start from; only requests from this machine name one. */
  planFolder: z.string().optional(),
});

/**
 * Refuses what only a command of this machine may say: a folder of ours, a source on our disk, another sandbox than the
 * one chosen here. An agent in a sandbox with an open network can send events, too, and must not get out by that.
 * Fails with `unsupported`.
 */
export function refuseForEvents(data: Readonly<Record<string, unknown>>): void {
  const { path, git } = sourceOf(data.plan);
  const local = typeof git === "string" && !/^(https?|ssh|git):\/\/|^[\w.-]+@[\w.-]+:/.test(git);
  const said = [
    ...(data.planFolder === undefined ? [] : ["planFolder"]),
    ...(data.sandbox === undefined ? [] : ["sandbox"]),
    ...(path === undefined ? [] : ["plan.source.path"]),
    ...(local ? ["plan.source.git with a path"] : []),
    ...ownSettings(data.plan).map((name) => `plan.secrets ${name}`),
  ];
  if (said.length === 0) return;
  throw new WavesmithError("unsupported", `a request by event cannot say ${said.join(", ")}`, {
    remedy:
      "leave it out, bring the tree along with `source: { git: https://… }`, or use `wavesmith build` on this machine",
  });
}

/** Our own keys and addresses, which nobody outside may have handed to an agent. */
function ownSettings(plan: unknown): string[] {
  const { secrets } = (typeof plan === "object" && plan !== null ? plan : {}) as { secrets?: unknown };
  return Array.isArray(secrets)
    ? secrets
        .map(String)
        .filter((name) => /^(WAVESMITH_|INNGEST_|ANTHROPIC_|OPENAI_|CLAUDE_CODE_|DATABASE_URL$)/.test(name))
    : [];
}

function sourceOf(plan: unknown): { path?: unknown; git?: unknown } {
  const { source } = (typeof plan === "object" && plan !== null ? plan : {}) as { source?: unknown };
  return typeof source === "object" && source !== null ? source : {};
}

/** Reads a `project/build.requested` event. Fails with `plan-invalid`, naming every fault. */
export function readBuildRequest(
  ports: Pick<Ports, "environment" | "models">,
  event: { id: string; data: unknown },
  defaultDriver: string,
): BuildRequest {
  const data = requestSchema.parse(event.data);
  if (data.brief !== undefined || data.planUrl !== undefined) {
    const what = data.brief !== undefined ? "a brief" : "planUrl";
    throw new WavesmithError("unsupported", `a build from ${what} is not supported yet`, { remedy: "send a plan" });
  }
  const { plan, faults } = parsePlanValue(data.plan, { baseDir: data.planFolder ?? null, env: ports.environment });
  const refused = plan === null ? faults : unsupportedFeatures(plan);
  if (plan === null || refused.length > 0) {
    throw new WavesmithError("plan-invalid", refused.map((fault) => `${fault.path}: ${fault.message}`).join("\n"));
  }
  refuseWithoutModels(ports.models, plan);
  return {
    eventId: event.id,
    tenant: defaultTenant,
    project: data.project ?? plan.name,
    requestedBy: data.requestedBy ?? null,
    plan,
    sandboxDriver: data.sandbox ?? defaultDriver,
    network: networkOf(plan).mode,
  };
}
