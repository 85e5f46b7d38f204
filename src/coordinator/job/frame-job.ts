import type { Plan } from "../../domain/plan.ts";
import type { JobSpec, StageSpec } from "../../sandbox/port.ts";
import { shell, stage } from "./job-stages.ts";
import { planSetup, type SetupFrame, withOwnCache } from "./setup-cache.ts";

// What every job of a tree begins with: its environment and ports, setup (from the cache when it
// can be), services.

const serviceReadyMs = 60_000;

export interface JobFrame extends SetupFrame {
  /** Commands of this job, to know which services it needs; null: it may need any. */
  readonly mentions: readonly string[] | null;
}

export interface JobSetting {
  readonly env: Record<string, string>;
  /** Setup and services, to go before the job's own stages. */
  readonly stages: StageSpec[];
  readonly port: number;
  /** What its job says besides its stages and labels. */
  readonly reach: Pick<JobSpec, "after" | "hidden" | "ports"> & { readonly writable: string[] };
}

/** The environment, ports, setup and services of a job in a tree. */
export async function frameJob(frame: JobFrame): Promise<JobSetting> {
  const { ports, endpoint, plan } = frame;
  const services = neededServices(frame);
  const [port, ...servicePorts] = await endpoint.guest.allocatePorts(1 + services.length);
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
  return { env, stages, port: port!, reach: reachOf(frame, [port!, ...servicePorts], setup.after) };
}

function reachOf({ treePath, ownCache }: JobFrame, ports: number[], after: string | null): JobSetting["reach"] {
  const waits = after === null ? {} : { after };
  if (ownCache === undefined) return { writable: [treePath, "cache"], ports, ...waits };
  return { writable: [treePath, ownCache], hidden: ["cache"], ports, ...waits };
}

const portVariable = (service: string): string => `PORT_${service.toUpperCase().replaceAll("-", "_")}`;

/**
 * Services a job's commands mention by their port; all of them for an agent, whose needs are
 * unknown.
 */
function neededServices(frame: JobFrame): [string, Plan["services"][string]][] {
  const all = Object.entries(frame.plan.services);
  const { mentions } = frame;
  if (mentions === null || all.length === 0) return all;
  const asked = new Set<string>();
  const visit = (text: string): void => {
    for (const [name, service] of all) {
      if (asked.has(name) || !text.includes(portVariable(name))) continue;
      asked.add(name);
      visit(service.command);
    }
  };
  mentions.forEach(visit);
  if (frame.plan.setup !== null) visit(frame.plan.setup.run);
  return all.filter(([name]) => asked.has(name));
}

function serviceStage(
  frame: JobFrame,
  env: Record<string, string>,
  name: string,
  service: Plan["services"][string],
): StageSpec {
  const base = stage({
    name: `service ${name}`,
    argv: shell(service.command),
    env,
    cwd: frame.treePath,
    timeoutMs: serviceReadyMs,
  });
  const ready = { argv: service.ready === null ? ["true"] : shell(service.ready) };
  return { ...base, background: true, ready };
}
