// The only place where commands reach the parts behind the coordinator. Like an entry point, it may
// import everything. It loads each part when a command needs it, so that `plan` or a wrong option
// does not wait for a database driver.

import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { AppOptions } from "../app/options.ts";
import type { App } from "../app.ts";
import type { Config } from "../config.ts";
import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { ProjectId } from "../domain/ids.ts";
import type { Plan, PlanFault } from "../domain/plan/plan.ts";
import type { BuiltImage, ImageProgress, ImageRequest } from "../sandbox/drivers/docker/image.ts";
import type { DockerLeftovers } from "../sandbox/drivers/docker/leftovers.ts";
import { createDriver, requireDriverName, traitsOf, unsafeDriver } from "../sandbox/drivers/registry.ts";
import type { DriverProblem, SandboxDriver } from "../sandbox/port.ts";
import type { RunningServer, ServerOptions } from "../server/server.ts";
import type { KeyFile } from "../server/server-key.ts";
import type { Database } from "../store/connection/connection.ts";
import type { Store } from "../store/port.ts";
import type { Workspace } from "../workspace/port.ts";
import { readAddress } from "./data/server-address.ts";

export type { App } from "../app.ts";
export type { Config } from "../config.ts";
export type { PreviewProxy } from "../delivery/preview-proxy.ts";
export type { Reach } from "../delivery/unreached-preview.ts";
export type { BuiltImage, ImageProgress } from "../sandbox/drivers/docker/image.ts";
export { driverChoices, driverNames, requireDriverName, traitsOf, unsafeDriver } from "../sandbox/drivers/registry.ts";
export type {
  DriverProblem,
  GuestClient,
  SandboxEndpoint,
  SandboxInfo,
  SandboxUsage,
  StageSpec,
} from "../sandbox/port.ts";
export type { PreviewHosts } from "../server/port.ts";
export type { KeyFile } from "../server/server-key.ts";
export type { Database } from "../store/connection/connection.ts";
export type { AttemptRow, BuildRow, GateRunRow, LogChunkRow, SandboxRow, SnapshotRow, Store } from "../store/port.ts";
export type { ChangedFile } from "../workspace/port.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export async function configFrom(environment: Environment): Promise<Config> {
  const { loadConfig } = await import("../config.ts");
  return loadConfig(environment);
}

/** A parsed and checked plan file, with the reasons why `build` would refuse it. */
export async function readPlan(path: string, environment: Environment) {
  const [{ loadPlanFile }, { unsupportedFeatures }, { sourceWarnings }] = await Promise.all([
    import("../plan/load-plan.ts"),
    import("../plan/checks/unsupported.ts"),
    import("../plan/checks/check-source.ts"),
  ]);
  const parsed = await loadPlanFile(path, { env: environment });
  if (parsed.plan === null) return { ...parsed, refused: [] };
  const warnings = [...parsed.warnings, ...(await sourceWarnings(parsed.plan, topOfRepository(process.cwd())))];
  return { ...parsed, warnings, refused: unsupportedFeatures(parsed.plan) };
}

/**
 * Returns the plan file's content as a value for an event. Call it only for files in which
 * `readPlan` found no faults.
 */
export async function rawPlan(path: string): Promise<unknown> {
  const [{ readFile }, { readPlanText }] = await Promise.all([
    import("node:fs/promises"),
    import("../plan/plan-text.ts"),
  ]);
  const format = path.toLowerCase().endsWith(".json") ? "json" : "yaml";
  return readPlanText(await readFile(path, "utf8"), format).value;
}

/** Returns a plan as the value of a plan file that needs no other file. */
export async function writtenPlan(plan: Plan): Promise<Record<string, unknown>> {
  return (await import("../plan/write-plan.ts")).planFile(plan);
}

/** Finds the git repository that a folder is in; null if it is in none. */
function topOfRepository(folder: string): string | null {
  if (existsSync(join(folder, ".git"))) return folder;
  return dirname(folder) === folder ? null : topOfRepository(dirname(folder));
}

/**
 * Checks the models that a plan names, as `build` does: their faults, and those for which this
 * machine has no key.
 */
export async function checkPlanModels(
  config: Config,
  plan: Plan,
): Promise<{ faults: PlanFault[]; warnings: string[] }> {
  const [{ createOffer, readOffer }, { missingKeys, modelFaults }] = await Promise.all([
    import("../models/offer.ts"),
    import("../coordinator/plan/plan-models.ts"),
  ]);
  const warnings: string[] = [];
  const offer = createOffer({ ...(await readOffer(config)), warn: (message) => warnings.push(message) });
  const faults = modelFaults(offer, plan);
  const missing = missingKeys(offer, plan).map(
    ({ role, model, lack, remedy }) => `the role ${role} cannot use ${model} here: ${lack}; ${remedy}`,
  );
  return { faults, warnings: [...warnings, ...(faults.length > 0 ? [] : missing)] };
}

/** Opens the app: every part, wired. */
export async function openApp(
  config: Config,
  warn: AppOptions["warn"],
  options: Pick<AppOptions, "onEvent"> = {},
): Promise<App> {
  makeDataDir(config);
  const { createApp } = await import("../app.ts");
  return createApp({ config, warn, ...options });
}

/** Starts the HTTP server on an open app. */
export async function openServer(options: ServerOptions): Promise<RunningServer> {
  const server = await import("../server/server.ts");
  return server.startServer(options);
}

/** Returns the key that `POST /e/:key` requires if no setting names one. */
export async function serverKey({ dataDir }: Config): Promise<KeyFile> {
  const { ensureKeyFile } = await import("../server/server-key.ts");
  return ensureKeyFile(dataDir, "serve-key");
}

/** Returns the key of a server that serves this data directory at this address; otherwise null. */
export async function keyOfOwnServer(config: Config, origin: string): Promise<string | null> {
  if ((await readAddress(config.dataDir)) !== origin) return null;
  return config.serveKey ?? (await import("../server/server-key.ts")).keyOfDirectory(config.dataDir);
}

/**
 * Whether this data directory has been used; always true with DATABASE_URL. Fails with
 * `environment` if the directory exists and cannot be read.
 */
export function isUsed({ databaseUrl, dataDir }: Config): boolean {
  if (databaseUrl !== null) return true;
  try {
    const found = statSync(dataDir, { throwIfNoEntry: false });
    if (found === undefined) return false;
    if (!found.isDirectory()) throw new Error("it is not a folder");
    accessSync(dataDir, constants.R_OK | constants.X_OK);
  } catch (error) {
    throw unusable(dataDir, error);
  }
  return existsSync(join(dataDir, "postgres"));
}

const unusable = (dataDir: string, error: unknown): WavesmithError =>
  new WavesmithError("environment", `the data directory ${dataDir} cannot be used: ${messageOf(error)}`, {
    remedy: "use a folder of your own: --data DIR",
    cause: error,
  });

/**
 * Opens only the database, for commands that read: quicker than the whole app, and drives nothing.
 */
export async function openStore(
  config: Config,
  purpose: string,
  warn: (message: string) => void = () => undefined,
): Promise<{ store: Store; database: Database; close(): Promise<void> }> {
  const [{ openDatabase }, { migrate }, { createStore }, { checkDataDirectory }, workspaces] = await Promise.all([
    import("../store/connection/connection.ts"),
    import("../store/migrate.ts"),
    import("../store/store.ts"),
    import("../store/data-directory.ts"),
    import("../workspace/workspace.ts"),
  ]);
  makeDataDir(config);
  const database = await openDatabase({
    dataDir: config.dataDir,
    ...(config.databaseUrl === null ? {} : { databaseUrl: config.databaseUrl }),
    applicationName: `wavesmith ${purpose} ${process.pid}`,
    warn,
    patienceMs: config.databaseWaitMs,
  });
  try {
    await migrate(database.pool, fileURLToPath(new URL("../../drizzle", import.meta.url)));
    await checkDataDirectory({
      pool: database.pool,
      dataDir: config.dataDir,
      isEmbedded: database.kind === "embedded",
      claims: false,
      holds: workspaces.holdsCommit(workspaces.createWorkspace({ dataDir: config.dataDir, env: config.environment })),
    });
  } catch (error) {
    await database.close();
    throw error;
  }
  return { store: createStore(database.pool), database, close: () => database.close() };
}

/**
 * Returns a driver to try before there is a database. It must start nothing, because it does not
 * know the installation's id.
 */
export async function driverForTrial(config: Config, name: string): Promise<Pick<SandboxDriver, "check">> {
  requireDriverName(name);
  // Only a host driver writes to the data directory when it is tried.
  if (traitsOf(name).machine === "host") makeDataDir(config);
  return createDriver(name, {
    dataDir: config.dataDir,
    installationId: "trial",
    environment: config.environment,
    readOnly: config.sandboxReadOnly,
    dockerRuntime: config.dockerRuntime,
    logger: { warn: () => undefined },
  });
}

/** Returns what Docker still holds of deleted data directories; nothing without an engine. */
export async function leftoversInDocker(config: Config): Promise<readonly DockerLeftovers[]> {
  const { findLeftovers } = await import("../sandbox/drivers/docker/leftovers.ts");
  return findLeftovers(config.environment).catch((error: unknown) => {
    if (error instanceof WavesmithError) return [];
    throw error;
  });
}

/** Creates the data directory, hidden from git. Fails with `environment`. */
export function makeDataDir({ dataDir }: Config): void {
  // One folder at a time, because Node's recursive mkdir never returns in /proc.
  const missing: string[] = [];
  for (let folder = dataDir; !existsSync(folder) && dirname(folder) !== folder; folder = dirname(folder)) {
    missing.push(folder);
  }
  try {
    for (const folder of missing.reverse()) makeFolder(folder);
    if (missing.length > 0) hideFromGit(dataDir);
    if (!statSync(dataDir).isDirectory()) throw new Error("it is not a folder");
    accessSync(dataDir, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** Returns the folder for the logs of builds in the background, made if it is missing. */
export function logFolder(config: Config): string {
  makeDataDir(config);
  const folder = join(config.dataDir, "logs");
  makeFolder(folder);
  return folder;
}

/** Keeps `git add .` from adding the database and every volume. */
function hideFromGit(folder: string): void {
  try {
    writeFileSync(join(folder, ".gitignore"), "*\n", { flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // Another process wrote it first.
  }
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // Another process created it first.
  }
}

export interface SandboxImageRequest extends Omit<ImageRequest, "guestPath" | "npmRegistry"> {
  readonly onProgress: (progress: ImageProgress) => void;
  readonly signal: AbortSignal;
}

/**
 * Builds the image of Docker sandboxes. Fails with `environment` if there is no engine or a step
 * failed.
 */
export async function buildSandboxImage(config: Config, request: SandboxImageRequest): Promise<BuiltImage> {
  const [{ connectEngine, engineProblem }, { buildImageFromRecipe }, { guestProgram }] = await Promise.all([
    import("../sandbox/drivers/docker/engine/engine.ts"),
    import("../sandbox/drivers/docker/image.ts"),
    import("../sandbox/guest/guest-program.ts"),
  ]);
  const problem = await engineProblem(config.environment);
  if (problem !== null) throw lackingMachine([problem]);
  const folder = await mkdtemp(join(tmpdir(), "wavesmith-image-"));
  try {
    const { onProgress, signal, ...recipe } = request;
    const guestPath = await guestProgram(folder);
    const imageRecipe = { ...recipe, guestPath, npmRegistry: await npmRegistry(config) };
    return await buildImageFromRecipe(connectEngine(config.environment), imageRecipe, { onProgress, signal });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Returns the npm registry of this machine; null without npm. */
async function npmRegistry({ environment }: Config): Promise<string | null> {
  const env = { PATH: environment.PATH ?? "", HOME: environment.HOME ?? "" };
  return promisify(execFile)("npm", ["config", "get", "registry"], { env, timeout: 30_000 }).then(
    ({ stdout }) => stdout.trim(),
    () => null, // Only a base without Node needs it.
  );
}

/** Returns the readable form of a line of an agent's output; null if there is nothing to show. */
export const agentLines = async () => (await import("../agents/agent-output.ts")).agentLine;

/** Loads the preview proxy. */
export const previewProxies = () => import("../delivery/preview-proxy.ts");

/** Loads what forwards requests for the hosts of previews. */
export const previewForwarding = () => import("../delivery/preview-hosts.ts");

/** Opens only git, for commands that read. */
export async function createWorkspaceFor(config: Config): Promise<Workspace> {
  const { createWorkspace } = await import("../workspace/workspace.ts");
  return createWorkspace({ dataDir: config.dataDir, env: config.environment });
}

/** Returns the path of a project's authority repository. */
export async function authorityPath(config: Config, projectId: ProjectId): Promise<string> {
  return (await createWorkspaceFor(config)).repositoryPath(projectId);
}

/** Returns the path of a drafted plan. */
export const planFilePath = (config: Config, name: string): string => join(config.dataDir, "plans", name);

/** Returns the problems of the git on PATH; empty if builds can use it. */
export async function gitProblems(config: Config): Promise<DriverProblem[]> {
  const git = await import("../workspace/authority/git.ts");
  return (await git.checkGit(config.environment)).map((problem) => ({ ...problem, lacks: "git" as const }));
}

/** Fails with `environment` if git is missing or too old, because every build needs it. */
export async function requireGit(config: Config): Promise<void> {
  const problems = await gitProblems(config);
  if (problems.length > 0) throw lackingMachine(problems);
}

/**
 * Fails with `environment` if a driver does not work on this machine, naming each problem and its
 * remedy.
 */
export async function requireDriver(config: Config, name: string): Promise<void> {
  const problems = await (await driverForTrial(config, name)).check();
  if (problems.length > 0) throw lackingDriver(name, problems);
}

/** Problems that no other driver would solve. */
function lackingMachine(problems: readonly DriverProblem[]): WavesmithError {
  const join = (part: (problem: DriverProblem) => string) => problems.map(part).join("; ");
  return new WavesmithError(
    "environment",
    join(({ what }) => what),
    { remedy: join(({ remedy }) => remedy) },
  );
}

export function lackingDriver(name: string, problems: readonly DriverProblem[]): WavesmithError {
  const { machine, isolation } = traitsOf(name);
  const elsewhere = problems.filter(({ lacks }) => lacks === "disk" || (lacks === "git" && isolation === "none"));
  if (elsewhere.length > 0) return lackingMachine(elsewhere);
  // These problems already name the engine or its image.
  if (machine === "engine") return lackingMachine(problems);
  const list = problems.map(({ what, remedy }) => `\n  ${what}\n    remedy: ${remedy}`).join("");
  const isNamed = problems.some(({ remedy }) => remedy.includes(unsafeDriver));
  const remedy =
    isolation !== "none" && !isNamed
      ? `fix the above, or build without isolation, only with plans you trust: --sandbox ${unsafeDriver}`
      : "follow the remedies above; run only plans you trust without isolation";
  return new WavesmithError("environment", `the sandbox driver ${name} does not work here:${list}`, { remedy });
}
