// A separate process that uses a driver, for the contract suite. Its argument is the request.
// Prints its result as one line of JSON; with `hang` it stays alive afterwards, to be killed.
import type { ProjectId, SandboxId } from "../../src/domain/ids.ts";
import type { NetworkMode } from "../../src/domain/sandbox/network.ts";
import { createDriver, type DriverSettings } from "../../src/sandbox/drivers/registry.ts";
import type { JobSpec } from "../../src/sandbox/port.ts";
import { usualLimits } from "../support/usual-limits.ts";

/** A name in the registry with its settings, so that another process can create the same driver. */
export interface DriverChoice {
  readonly name: string;
  readonly settings: DriverSettings;
}

export interface ProcessRequest {
  readonly driver: DriverChoice;
  readonly projectId: string;
  readonly network: NetworkMode;
  readonly exec?: readonly string[];
  readonly job?: { readonly key: string; readonly spec: JobSpec };
  readonly hang?: boolean;
  /** Stops and removes everything at the end. */
  readonly remove?: boolean;
}

async function answer(request: ProcessRequest): Promise<object> {
  const driver = createDriver(request.driver.name, request.driver.settings);
  const projectId = request.projectId as ProjectId;
  const sandboxId = `sbx_${request.projectId}` as SandboxId;
  const { guest, bootId } = await driver.ensure({
    projectId,
    sandboxId,
    tenantId: "ten_test",
    network: { mode: request.network, hosts: [] },
    limits: usualLimits,
  });
  const exec = request.exec === undefined ? null : await guest.exec(execSpec(request.exec));
  const job = request.job === undefined ? null : await guest.startJob(request.job.key, request.job.spec);
  if (request.remove) await driver.remove(projectId, { volume: true });
  return { bootId, exec, job, problems: request.remove ? await driver.check() : [] };
}

function execSpec(argv: readonly string[]) {
  return { argv, cwd: "work", env: {}, writable: ["work"], timeoutMs: 30_000, maxBytes: 1 << 20 };
}

const request = JSON.parse(process.argv[2]!) as ProcessRequest;
process.stdout.write(`${JSON.stringify(await answer(request))}\n`);
if (request.hang) setInterval(() => undefined, 1000);
else process.exit(0);
