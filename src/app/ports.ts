import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createAgents } from "../agents/agents.ts";
import { readAddress } from "../cli/data/server-address.ts";
import type { Config } from "../config.ts";
import { withCrashPoints } from "../coordinator/crash-points.ts";
import { usesForges } from "../coordinator/forge/may-deliver.ts";
import type { Ports } from "../coordinator/port.ts";
import { createPreviewSandboxes } from "../coordinator/preview/preview-sandboxes.ts";
import { randomIds } from "../domain/ids.ts";
import type { Forges } from "../forge/port.ts";
import { createGates } from "../gates/gates.ts";
import { createCassette } from "../models/call/cassette.ts";
import { createModels } from "../models/models.ts";
import { readOffer } from "../models/offer.ts";
import type { Models } from "../models/port.ts";
import { createNotifier } from "../notifications/notifier.ts";
import { traitsOf } from "../sandbox/drivers/registry.ts";
import { createEgressDenials } from "../sandbox/egress/denials.ts";
import { machineBoot, machineRoom } from "../sandbox/host/machine.ts";
import { createDirectorySnapshots } from "../sandbox/snapshots/directory.ts";
import { ensureKeyFile } from "../server/server-key.ts";
import type { Store } from "../store/port.ts";
import { createWorkspace } from "../workspace/workspace.ts";
import { openForges } from "./forges.ts";
import type { AppOptions } from "./options.ts";

interface Wiring {
  readonly store: Store;
  readonly crashes: { readonly crashPoint?: NonNullable<AppOptions["crashPoint"]> };
  readonly driver: Ports["driver"];
  readonly send: Ports["events"]["send"];
  readonly wakeWatcher: () => void;
}

/** Makes the ports of the coordinator's operations from the real parts. */
export async function createPorts(options: AppOptions, wiring: Wiring): Promise<Ports> {
  const { config } = options;
  const { store, crashes, driver, send, wakeWatcher } = wiring;
  const forges = openForges(config, options.clock);
  const plain: Ports = {
    store,
    workspace: createWorkspace({
      dataDir: config.dataDir,
      env: config.environment,
      async credentials(url, projectId) {
        const project = await store.projects.find({ id: projectId });
        // Only a command on this machine looks at the source of a project that is not there yet.
        return project === null || usesForges(project.tenantId) ? forges.gitEnvironment(url) : {};
      },
      ...crashes,
    }),
    gates: createGates(),
    agents: createAgents(),
    models: await openModels(options, store),
    notifier: openNotifier(options),
    forges,
    driver,
    driverTraits: traitsOf,
    egress: createEgressDenials(config.dataDir),
    snapshots: createDirectorySnapshots(join(config.dataDir, "snapshots")),
    machine: { room: () => machineRoom(config.dataDir), boot: machineBoot },
    sandboxPolicy: config.sandboxPolicy,
    previews: createPreviewSandboxes(() => ports),
    events: { send },
    secrets: secretValues(config, forges),
    planFiles: planFiles(join(config.dataDir, "plans")),
    briefAgents: config.briefAgents,
    environment: config.environment,
    eventSecrets: config.eventSecrets,
    forgeRepositories: config.webhooks.repositories,
    tenantLimits: config.tenantLimits,
    taskSlots: config.taskSlots,
    seesAllTenants: true,
    clock: { now: options.clock ?? (() => new Date()) },
    ids: options.ids ?? randomIds,
    processors: config.processors,
    memoryBytes: config.memoryBytes,
    wakeWatcher,
    log: {
      warn: (message, facts) => options.warn(facts === undefined ? message : `${message} ${JSON.stringify(facts)}`),
    },
  };
  const ports = options.crashPoint === undefined ? plain : withCrashPoints(plain, options.crashPoint);
  return ports;
}

async function openModels({ config, ids, clock, warn }: AppOptions, store: Store): Promise<Models> {
  const { cassette, patienceMs } = config.models;
  return createModels({
    ...(await readOffer(config)),
    store,
    ids: ids ?? randomIds,
    now: clock ?? (() => new Date()),
    tenantLimits: config.tenantLimits,
    cassette: cassette === null ? null : createCassette(cassette.folder, cassette.mode),
    patienceMs,
    warn,
  });
}

function openNotifier({ config, clock }: AppOptions): Ports["notifier"] {
  const { dataDir, webhookKey, notifyHosts, mailServer, engine } = config;
  return createNotifier({
    key: async () => webhookKey ?? (await ensureKeyFile(dataDir, "webhook-key")).key,
    privateHosts: notifyHosts,
    mailServer,
    origin: async () => engine.serveOrigin ?? (await readAddress(dataDir)),
    now: clock ?? (() => new Date()),
  });
}

function planFiles(folder: string): Ports["planFiles"] {
  return {
    path: (name) => join(folder, name),
    async write(name, text) {
      await mkdir(folder, { recursive: true });
      const unfinished = join(folder, `.${name}.${process.pid}`);
      await writeFile(unfinished, text);
      await rename(unfinished, join(folder, name));
    },
  };
}

const secretValues = ({ environment, credentials }: Config, forges: Forges): Ports["secrets"] => ({
  own: () => ({ ...credentials, ...forges.secrets() }),
  values: (names) =>
    Object.fromEntries(names.flatMap((name) => (environment[name] === undefined ? [] : [[name, environment[name]]]))),
});
