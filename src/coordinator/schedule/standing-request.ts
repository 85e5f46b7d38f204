import { WavesmithError } from "../../domain/errors.ts";
import type { PlanFault } from "../../domain/plan/plan.ts";
import { type StandingRequest, standingFileName } from "../../domain/schedule.ts";
import { readPlanText } from "../../plan/plan-text.ts";
import { parseStandingFile, type StandingFile } from "../../plan/standing/standing-file.ts";
import type { ProjectRow } from "../../store/port.ts";
import { refuseForEvents } from "../build/request/build-request.ts";
import { defaultTenant, tenantIdFor } from "../build/request/project.ts";
import type { Ports } from "../port.ts";

const maxPlanBytes = 4 * 1024 * 1024;

/** A repository's `wavesmith.yaml` at a commit, and the build it requests. */
export interface Standing {
  readonly file: StandingFile;
  /** The data of the build's request, without its project. */
  readonly request: StandingRequest;
}

/** The secrets of this machine are the default tenant's. */
export const ofTenant = <Given extends Pick<Ports, "eventSecrets">>(ports: Given, tenantId: string): Given =>
  tenantId === tenantIdFor(defaultTenant) ? ports : { ...ports, eventSecrets: [] };

/**
 * Reads `wavesmith.yaml` of a commit in the project's repository; null if there is none. Fails with
 * `plan-invalid`, naming every fault with its line.
 */
export async function findStanding(
  ports: Pick<Ports, "workspace" | "environment" | "eventSecrets">,
  projectId: ProjectRow["id"],
  sha: string,
): Promise<Standing | null> {
  const text = await ports.workspace.readBlob(projectId, sha, standingFileName);
  if (text === null) return null;
  const readPlan = async (path: string): Promise<string | null> => {
    const plan = await ports.workspace.readBlob(projectId, sha, path, { maxBytes: maxPlanBytes });
    return plan === null ? null : plan.toString("utf8");
  };
  return standingOf(ports, text.toString("utf8"), readPlan);
}

/**
 * Reads the text of a `wavesmith.yaml`; `readPlan` reads the plan that it names. Fails with
 * `plan-invalid`, and with `unsupported` for what only a command on this machine may ask for.
 */
export async function standingOf(
  ports: Pick<Ports, "environment" | "eventSecrets">,
  text: string,
  readPlan: (path: string) => Promise<string | null>,
): Promise<Standing> {
  const { file, faults } = parseStandingFile(text, ports.environment);
  if (file === null) throw faulty(faults);
  const request = await requestOf(file, readPlan);
  refuseForEvents({ ...request }, ports);
  return { file, request };
}

/**
 * Returns a `wavesmith.yaml` with its plan inside, for a server that cannot read the plan's file.
 * Fails with `plan-invalid`, naming every fault with its line.
 */
export async function standingFileWithPlan(
  environment: Ports["environment"],
  text: string,
  readPlan: (path: string) => Promise<string | null>,
): Promise<StandingRequest & { readonly on: object }> {
  const { file, faults } = parseStandingFile(text, environment);
  if (file === null) throw faulty(faults);
  return { on: { schedule: file.schedules }, ...(await requestOf(file, readPlan)) };
}

async function requestOf(
  { plan, brief, yes, budget }: StandingFile,
  readPlan: (path: string) => Promise<string | null>,
): Promise<StandingRequest> {
  if (brief !== null) return { brief, ...(yes ? { yes } : {}), ...(budget === undefined ? {} : { budget }) };
  if (plan === null || "value" in plan) return { plan: plan?.value };
  const text = await readPlan(plan.path);
  if (text === null) {
    throw new WavesmithError("plan-invalid", `${standingFileName} names the plan ${plan.path}, which is not there`);
  }
  const { value, faults } = readPlanText(text, plan.path.toLowerCase().endsWith(".json") ? "json" : "yaml");
  if (value === undefined) throw faulty(faults.map((fault) => ({ ...fault, path: plan.path })));
  return { plan: value };
}

function faulty(faults: readonly Pick<PlanFault, "line" | "path" | "message">[]): WavesmithError {
  const lines = faults.map(({ line, path, message }) =>
    [line === null ? "" : `line ${line}:`, path, message].filter((part) => part !== "").join(" "),
  );
  return new WavesmithError("plan-invalid", `${standingFileName} cannot be used:\n${lines.join("\n")}`);
}
