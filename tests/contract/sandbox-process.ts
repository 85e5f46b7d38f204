// A process of its own that uses a local driver, for the contract suite: node --import tsx sandbox-process.ts REQUEST.
// Prints one line of JSON with what it got; `hang` leaves it alive afterwards, to be killed.
import type { ProjectId, SandboxId } from "../../src/domain/ids.ts";
import { createLocalDriver, type LocalDriverOptions } from "../../src/sandbox/drivers/local.ts";
import type { JobSpec, Network } from "../../src/sandbox/port.ts";

export interface ProcessRequest {
  readonly options: LocalDriverOptions;
  readonly projectId: string;
  readonly network: Network;
  readonly exec?: readonly string[];
  readonly job?: { readonly key: string; readonly spec: JobSpec };
  readonly hang?: boolean;
  /** Stops and removes everything at the end. */
  readonly remove?: boolean;
}

async function answer(request: ProcessRequest): Promise<object> {
  const driver = createLocalDriver(request.options);
  const projectId = request.projectId as ProjectId;
  const sandboxId = `sbx_${request.projectId}` as SandboxId;
  const { guest, bootId } = await driver.ensure({ projectId, sandboxId, network: request.network });
  const exec = request.exec === undefined ? null : await guest.exec(execSpec(request.exec));
  const job = request.job === undefined ? null : await guest.startJob(request.job.key, request.job.spec);
  if (request.remove) await driver.remove(projectId, { volume: true });
  return { bootId, exec, job, problems: request.remove ? await driver.check() : [] };
}

function execSpec(argv: readonly string[]) {
  return { argv, cwd: ".", env: {}, writable: ["."], timeoutMs: 30_000, maxBytes: 1 << 20 };
}

const request = JSON.parse(process.argv[2]!) as ProcessRequest;
process.stdout.write(`${JSON.stringify(await answer(request))}\n`);
if (request.hang) setInterval(() => undefined, 1000);
else process.exit(0);
