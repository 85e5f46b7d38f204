import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { access, constants, mkdtemp, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { describeWall } from "../../domain/sandbox/sandbox.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { bytesText, count, oneLine } from "../output/format.ts";
import { type GitHubConnection, githubConnection } from "../parts/forges.ts";
import {
  type Config,
  type DriverProblem,
  driverForTrial,
  driverNames,
  gitProblems,
  isUsed,
  leftoversInDocker,
  openStore,
} from "../parts.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";

const run = promisify(execFile);
const minFreeBytes = 1024 ** 3;
const trialLimitMs = 20_000;

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly remedy: string | null;
  /** No build works without it. */
  readonly needed: boolean;
}

/** `doctor`: tries everything that building needs and says how to fix what does not work. */
export async function doctor(context: Context): Promise<number> {
  const onFound = context.json ? () => undefined : (check: Check) => printCheck(context, check);
  const server = await serverApi(context);
  const { ok, checks } = await (server === null
    ? checkMachine(await context.config(), onFound)
    : checkServer(server, onFound));
  if (context.json) context.out.json({ ok, checks });
  else {
    const machine = server === null ? "This machine" : "The server's machine";
    if (!ok) context.out.line(`${machine} cannot build yet; see the remedies above.`);
    else context.out.line(`${machine} can build. To see its agents: ${context.hints.command("agents")}`);
  }
  return ok ? exit.ok : exit.environment;
}

/** Has a server try its machine, and shows the result at once. */
async function checkServer({ api, ask }: ServerApi, onFound: (check: Check) => void) {
  const report = await ask(api.GET("/api/v1/doctor", { params: { query: { again: "true" } } }));
  for (const check of report.checks) onFound(check);
  return report;
}

/** Tries everything, one after the other. */
export async function checkMachine(
  config: Config,
  onFound: (check: Check) => void = () => undefined,
): Promise<{ readonly ok: boolean; readonly checks: readonly Check[] }> {
  const checks: Check[] = [];
  for (const look of looks(config)) {
    const found = await look();
    checks.push(...found);
    for (const check of found) onFound(check);
  }
  return { ok: isWell(checks), checks };
}

/** Every required part works, and at least one sandbox driver. */
export function isWell(checks: readonly Check[]): boolean {
  const drivers = checks.filter((check) => check.name.startsWith("sandbox "));
  return checks.every((check) => check.ok || !check.needed) && drivers.some((check) => check.ok);
}

function printCheck({ out, hints }: Context, { name, ok, detail, remedy, needed }: Check): void {
  const mark = ok ? out.paint("good", "✓") : out.paint(needed ? "bad" : "warn", needed ? "✗" : "–");
  out.line(`${mark} ${name}: ${detail}`);
  if (remedy !== null) out.line(`    remedy: ${hints.rewrite(remedy)}`);
}

function looks(config: Config): (() => Promise<Check[]>)[] {
  return [
    async () => [{ name: "node", ok: true, detail: process.version, remedy: null, needed: true }],
    async () => [await git(config)],
    async () => [await database(config)],
    ...driverNames.map((name) => async () => [await driver(config, name)]),
    () => leftovers(config),
    async () => [await disk(config)],
    () => checkGitHub(config),
    async () => Promise.all(["npm", "python3", "make"].map((tool) => toolCheck(config, tool))),
  ];
}

async function versionOf(config: Config, program: string): Promise<string | null> {
  const env = { PATH: config.environment.PATH ?? "", HOME: config.environment.HOME ?? "" };
  return run(program, ["--version"], { env, timeout: trialLimitMs }).then(
    ({ stdout }) => stdout.trim().split("\n")[0] ?? "",
    () => null, // Missing and broken are the same here.
  );
}

async function git(config: Config): Promise<Check> {
  const [problem] = await gitProblems(config);
  const detail = problem?.what ?? (await versionOf(config, "git")) ?? "";
  return { name: "git", ok: problem === undefined, detail, remedy: problem?.remedy ?? null, needed: true };
}

async function database(config: Config): Promise<Check> {
  const name = "database";
  const embedded = config.databaseUrl === null;
  // Leave nothing behind in a data directory that was never used.
  let trial: string | null = null;
  try {
    trial = isUsed(config) ? null : await mkdtemp(join(tmpdir(), "wavesmith-doctor-"));
    const opened = await openStore(trial === null ? config : { ...config, dataDir: trial }, "doctor");
    const version = await opened.database.version();
    await opened.close();
    const detail = `${embedded ? "embedded" : "server of DATABASE_URL"}, Postgres ${version}`;
    return { name, ok: true, detail, remedy: null, needed: true };
  } catch (error) {
    const remedy = error instanceof WavesmithError ? error.remedy : null;
    return { name, ok: false, detail: messageOf(error), remedy, needed: true };
  } finally {
    if (trial !== null) await rm(trial, { recursive: true, force: true });
  }
}

async function driver(config: Config, name: string): Promise<Check> {
  const trial = existsSync(config.dataDir) ? null : await mkdtemp(join(tmpdir(), "wavesmith-doctor-"));
  try {
    const tried = await driverForTrial(trial === null ? config : { ...config, dataDir: trial }, name);
    // Git's own problems are reported above.
    const gitLacks = (await gitProblems(config)).length > 0;
    const found = await tried.check();
    const problems = gitLacks ? found.filter(({ lacks }) => lacks !== "git") : found;
    return driverCheck(name, problems, { gitLacks, dockerRuntime: config.dockerRuntime });
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    return { name: `sandbox ${name}`, ok: false, detail: error.message, remedy: error.remedy, needed: false };
  } finally {
    if (trial !== null) await rm(trial, { recursive: true, force: true });
  }
}

/** A sandbox needs git, so without it no driver counts as working. */
export function driverCheck(
  name: string,
  problems: readonly DriverProblem[],
  { gitLacks, dockerRuntime: runtime }: { gitLacks: boolean; dockerRuntime: string | null },
): Check {
  const bubblewrap = describeWall({ isolation: "bubblewrap", runtime: null });
  const local = ` (${bubblewrap}; with network: open, jobs share this machine's network and its loopback)`;
  const docker = ` (${describeWall({ isolation: "users", runtime })})`;
  const works = `works${{ local, docker }[name] ?? ", without isolation"}`;
  const detail =
    problems.map(({ what }) => what).join("; ") || (gitLacks ? "cannot be used without git, see above" : works);
  const remedy = problems.map((problem) => problem.remedy).join("; ") || null;
  return { name: `sandbox ${name}`, ok: problems.length === 0 && !gitLacks, detail, remedy, needed: false };
}

async function leftovers(config: Config): Promise<Check[]> {
  return (await leftoversInDocker(config)).map(({ dataDir, containers, volumes, remedy }) => {
    const counted = [...(containers > 0 ? [count(containers, "container")] : []), count(volumes, "volume")];
    const detail = `${counted.join(" and ")} of ${oneLine(dataDir)}, a deleted data directory`;
    return {
      name: "docker leftovers",
      ok: false,
      detail,
      remedy: oneLine(`if it will not come back: ${remedy}`),
      needed: false,
    };
  });
}

/** Whose credential it is, and what it may do; nothing when nobody has signed in. */
export async function checkGitHub(config: Config): Promise<Check[]> {
  const check = (detail: string, remedy: string | null): Check => ({
    ...{ name: "github", ok: remedy === null, detail, remedy, needed: false },
  });
  let connection: GitHubConnection;
  try {
    connection = githubConnection(config);
  } catch (error) {
    if (!(error instanceof WavesmithError)) throw error;
    return [{ ...check(error.message, error.remedy ?? null), ok: false }];
  }
  const { identity, problem, unfinished } = await connection.read();
  const left =
    unfinished === null
      ? []
      : [check("an App was being created on GitHub, and its key may not have been stored", unfinished.remedy)];
  if (problem !== null) return [{ ...check(problem.message, problem.remedy), ok: false }, ...left];
  if (identity === null || identity.kind === "none") return left;
  const { kind, login, rights, rate, installed } = identity;
  const calls = rate === null ? [] : [`${rate.left} of ${rate.limit} calls left this hour`];
  const may = rights.length === 0 ? ["a fine-grained token: GitHub names its rights only when it is used"] : rights;
  const where = installed === null ? [] : [`installed for ${installed.accounts.join(", ") || "nobody"}`];
  const remedy = installed?.accounts.length === 0 ? `install it: ${installed.url}` : null;
  return [check(`${kind} of ${login}: ${[...may, ...calls, ...where].join(", ")}`, remedy), ...left];
}

async function disk(config: Config): Promise<Check> {
  let folder = config.dataDir;
  while (!existsSync(folder)) folder = dirname(folder);
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const writable = await access(folder, constants.W_OK).then(
    () => true,
    () => false, // Reported below.
  );
  const ok = writable && free >= minFreeBytes;
  const remedy = writable
    ? `free some space, or use another folder: --data DIR`
    : `use a folder of your own: --data DIR`;
  const detail = writable ? `${bytesText(free)} free for ${config.dataDir}` : `${folder} cannot be written`;
  return { name: "disk", ok, detail, remedy: ok ? null : remedy, needed: true };
}

async function toolCheck(config: Config, tool: string): Promise<Check> {
  const versionText = await versionOf(config, tool);
  const remedy = versionText === null ? `install ${tool} if your plans call it` : null;
  return { name: `tool ${tool}`, ok: versionText !== null, detail: versionText ?? "not found", remedy, needed: false };
}
