import { itemAt } from "../../domain/known.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import type { JobSpec, StageSpec } from "../../sandbox/port.ts";
import { shellArgv, stage } from "./job-stages.ts";
import { planSetup, type SetupFrame, withOwnCache } from "./setup-cache.ts";

// The start of every job in a tree: its environment and ports, setup (from the cache if possible),
// and services.

const serviceReadyMs = 60_000;

export interface JobFrame extends SetupFrame {
  /** The job's commands, which tell the services it needs; null: it may need any. */
  readonly mentions: readonly string[] | null;
}

export interface JobSetting {
  readonly env: Record<string, string>;
  /** Setup and services, to put before the job's own stages. */
  readonly stages: StageSpec[];
  readonly port: number;
  /** The other fields of its job, besides stages and labels. */
  readonly reach: Pick<JobSpec, "after" | "hidden" | "ports"> & { readonly writable: string[] };
}

/** Prepares the environment, ports, setup and services of a job in a tree. */
export async function prepareJob(frame: JobFrame): Promise<JobSetting> {
  const { ports, endpoint, plan } = frame;
  const services = neededServices(frame);
  const allocated = await endpoint.guest.allocatePorts(1 + services.length);
  const port = itemAt(allocated, 0);
  const servicePorts = allocated.slice(1);
  const env: Record<string, string> = {
    ...withOwnCache(frame, { ...plan.env, ...frame.env }),
    ...ports.secrets.values(plan.secrets),
    PORT: String(port),
  };
  services.forEach(([name], index) => {
    env[portVariable(name)] = String(servicePorts[index]);
  });
  const setup = await planSetup(frame, env);
  const stages = [...setup.stages, ...services.map(([name, service]) => serviceStage(frame, env, name, service))];
  return { env, stages, port, reach: reachOf(frame, [port, ...servicePorts], setup.after) };
}

function reachOf({ treePath, ownCache }: JobFrame, ports: number[], after: string | null): JobSetting["reach"] {
  const waits = after === null ? {} : { after };
  if (ownCache === undefined) return { writable: [treePath, "cache"], ports, ...waits };
  return { writable: [treePath, ownCache], hidden: ["cache"], ports, ...waits };
}

const portVariable = (service: string): string => `PORT_${service.toUpperCase().replaceAll("-", "_")}`;

/** Returns the services whose port a job's commands mention; all of them for an agent. */
function neededServices(frame: JobFrame): [string, Plan["services"][string]][] {
  const all = Object.entries(frame.plan.services);
  const { mentions } = frame;
  if (mentions === null || all.length === 0) return all;
  const neededNames = new Set<string>();
  const visit = (text: string): void => {
    for (const [name, service] of all) {
      if (neededNames.has(name) || !text.includes(portVariable(name))) continue;
      neededNames.add(name);
      visit(service.command);
    }
  };
  mentions.forEach(visit);
  if (frame.plan.setup !== null) visit(frame.plan.setup.run);
  return all.filter(([name]) => neededNames.has(name));
}

function serviceStage(
  frame: JobFrame,
  env: Record<string, string>,
  name: string,
  service: Plan["services"][string],
): StageSpec {
  const base = stage({
    name: `service ${name}`,
    argv: shellArgv(service.command),
    env,
    cwd: frame.treePath,
    timeoutMs: serviceReadyMs,
  });
  const ready = { argv: service.ready === null ? ["true"] : shellArgv(service.ready) };
  return { ...base, background: true, ready };
}
