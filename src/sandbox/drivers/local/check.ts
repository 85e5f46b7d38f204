import { execFile } from "node:child_process";
import { mkdtempSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { isDiskFull, saysDiskFull } from "../../../domain/disk-full.ts";
import { messageOf, WavesmithError } from "../../../domain/errors.ts";
import { itemAt, present } from "../../../domain/known.ts";
import { removeTree } from "../../../guest/files/remove-tree.ts";
import { type HostFacts, readHostFacts } from "../../host/machine.ts";
import { findProgram, installCommand } from "../../host/programs.ts";
import { sandboxUser } from "../../host/users.ts";
import type { DriverProblem } from "../../port.ts";
import { type OuterCommand, outerCommand, outerCommandFor, showEtc } from "./bubblewrap.ts";
import type { LocalDriverOptions } from "./launch.ts";
import { recentTools } from "./tool-roots.ts";
import { prepareFolder } from "./volume.ts";

const run = promisify(execFile);
const trialLimitMs = 20_000;
const useUnsafe = "run without isolation: --sandbox local-unsafe";

/**
 * Tries a sandbox, a job's namespaces inside it, and the programs it needs; empty when all of it
 * works.
 */
export async function checkLocal(options: LocalDriverOptions, machine = readHostFacts()): Promise<DriverProblem[]> {
  if (options.unsafe) return asProblems(gitProblem(await runTrial("git", ["--version"], { PATH: options.env.PATH })));
  if (machine.platform !== "linux") {
    return [{ what: `bubblewrap needs Linux, and this is ${machine.platform}`, remedy: useUnsafe }];
  }
  const missing = missingPrograms(options, machine);
  if (missing.length > 0) return missing;
  let folder: string | null = null;
  try {
    folder = mkdtempSync(join(options.dataDir, "check-"));
    return asProblems(await tryOut(options, machine, folder));
  } catch (error) {
    return [fileProblem(error, options.dataDir) ?? otherProblem(error)];
  } finally {
    if (folder !== null) await removeTree(folder);
  }
}

function otherProblem(error: unknown): DriverProblem {
  const remedy = error instanceof WavesmithError ? error.remedy : null;
  return { what: messageOf(error), remedy: remedy ?? useUnsafe };
}

/**
 * Returns the problem when a disk refused something, which no other driver would change; otherwise
 * null.
 */
export function fileProblem(error: unknown, dataDir: string): DriverProblem | null {
  const { code, path, stderr } = error as { code?: unknown; path?: string; stderr?: string };
  if (isDiskFull(error) || saysDiskFull(stderr ?? "")) {
    return {
      what: `the disk that holds ${dataDir} is full`,
      remedy: "free some space, or use another folder: --data DIR",
      lacks: "disk",
    };
  }
  if (path === undefined || !["EACCES", "EPERM", "EROFS"].includes(String(code))) return null;
  return {
    what: `${path} cannot be written: ${messageOf(error)}`,
    remedy: "use a folder of your own on a writable disk: --data DIR",
    lacks: "disk",
  };
}

function missingPrograms(options: LocalDriverOptions, machine: HostFacts): DriverProblem[] {
  const needed = machine.isRoot ? ["bwrap", "nsenter", "unshare", "setpriv", "mount"] : ["bwrap", "nsenter"];
  return needed
    .filter((name) => findProgram(name, options.env.PATH) === null)
    .map((name) => {
      const install = installCommand(name === "bwrap" ? "bubblewrap" : "util-linux", machine);
      return { what: `${name} is not installed`, remedy: install };
    });
}

async function tryOut(options: LocalDriverOptions, machine: HostFacts, folder: string): Promise<DriverProblem | null> {
  const volume = join(folder, "volume");
  try {
    await prepareFolder(volume, sandboxUser(options.dataDir));
  } catch (error) {
    const reason = deniedUser(error);
    if (reason === null) throw error;
    return denied("bubblewrap cannot create a user namespace", reason, machine);
  }
  const sandboxed = trialIn(options, folder, volume);
  const tries = async (what: string, ...command: string[]): Promise<DriverProblem | null> => {
    const outcome = await runTrial(...sandboxed(command));
    if (outcome.ok) return null;
    return fileProblem({ stderr: outcome.text }, options.dataDir) ?? denied(what, outcome.text, machine);
  };
  const node = realpathSync(process.execPath);
  const job =
    "bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --ro-bind / / --proc /proc --dev /dev true";
  const loopback = "bwrap --unshare-user --unshare-net --ro-bind / / true";
  // Try everything in one sandbox first, because nearly always all of it works; then one by one to
  // find the fault.
  const all = `${job} && ${loopback} && "$1" --version > /dev/null && mkdir -p /workspace/trial && exec git --version`;
  const together = await runTrial(...sandboxed(["sh", "-c", all, "trial", node]));
  if (together.ok) return gitProblem(together);
  return (
    (await tries("bubblewrap cannot make a sandbox", "true")) ??
    (await tries("bubblewrap cannot make a job's own namespaces inside a sandbox", ...job.split(" "))) ??
    (await tries("bubblewrap cannot make a job's own loopback inside a sandbox", ...loopback.split(" "))) ??
    (await tries(`${node} does not run inside a sandbox`, node, "--version")) ??
    (await tries("the volume cannot be written inside a sandbox", "mkdir", "-p", "/workspace/trial")) ??
    gitProblem(await runTrial(...sandboxed(["git", "--version"])))
  );
}

function trialIn(
  options: LocalDriverOptions,
  folder: string,
  volume: string,
): (command: string[]) => [string, readonly string[]] {
  const tools = recentTools({
    ...options.env,
    readOnly: options.readOnly,
    dataDir: options.dataDir,
    execPath: process.execPath,
  });
  const shown = [...showEtc(join(folder, "etc")), ...tools.shown];
  const user = sandboxUser(options.dataDir);
  return (command) => {
    const sandbox = {
      bwrap: present(findProgram("bwrap", options.env.PATH), "bwrap"),
      shown,
      writable: [{ source: volume, target: "/workspace" }],
      network: "none",
      env: { PATH: tools.path },
      cwd: "/workspace",
      command,
    } as const;
    const { program, args }: OuterCommand = user === null ? outerCommand(sandbox) : outerCommandFor(user, sandbox);
    return [present(findProgram(program, options.env.PATH), program), args];
  };
}

const denied = (what: string, reason: string, machine: HostFacts): DriverProblem => ({
  what: `${what}: ${reason}`,
  remedy: denialRemedy(machine),
});

/**
 * Returns chown's error when root may not give files to another user here, as in a container with a
 * single user; otherwise null.
 */
export function deniedUser(error: unknown): string | null {
  const { cmd, stderr } = error as { cmd?: string; stderr?: string };
  if (cmd === undefined || !/^(\S*\/)?chown /.test(cmd)) return null;
  return /Invalid argument|Operation not permitted/.exec(stderr ?? "") === null
    ? null
    : `this is a user namespace in which root cannot give files to another user (${stderr!.trim().split("\n")[0]})`;
}

/** Names the system setting that denies namespaces, and the command that changes it. */
export function denialRemedy({ setting, inContainer, isRoot }: HostFacts): string {
  const sudo = isRoot ? "" : "sudo ";
  if (setting("/proc/sys/user/max_user_namespaces") === "0") {
    return `user.max_user_namespaces is 0, which denies user namespaces: ${sudo}sysctl -w user.max_user_namespaces=15000`;
  }
  if (setting("/proc/sys/kernel/unprivileged_userns_clone") === "0") {
    return `kernel.unprivileged_userns_clone is 0, which denies user namespaces: ${sudo}sysctl -w kernel.unprivileged_userns_clone=1`;
  }
  if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") === "1") {
    const profile = "abi <abi/4.0>,\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }\\n";
    const load = `printf '${profile}' | ${sudo}tee /etc/apparmor.d/bwrap && ${sudo}apparmor_parser -r /etc/apparmor.d/bwrap`;
    return `AppArmor denies it (kernel.apparmor_restrict_unprivileged_userns is 1); allow it to bubblewrap: ${load} (or to all: ${sudo}sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)`;
  }
  if (inContainer) {
    return "the container around us denies it; start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined";
  }
  return "the system or the container around us denies user namespaces, and no setting we can read says which: allow them for this user";
}

function gitProblem(git: TrialResult): DriverProblem | null {
  const [, major, minor] = /git version (\d+)\.(\d+)/.exec(git.text) ?? [];
  if (git.ok && Number(major) * 1000 + Number(minor) >= 2038) return null;
  const what = git.ok ? `${git.text.trim()} is too old` : `git does not run in the sandbox: ${git.text}`;
  return { what, remedy: "install git 2.38 or newer where PATH finds it", lacks: "git" };
}

const asProblems = (problem: DriverProblem | null): DriverProblem[] => (problem === null ? [] : [problem]);

interface TrialResult {
  readonly ok: boolean;
  readonly text: string;
}

async function runTrial(
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<TrialResult> {
  try {
    return { ok: true, text: (await run(program, args, { env, timeout: trialLimitMs, cwd: "/" })).stdout };
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    return { ok: false, text: stderr?.trim() || itemAt(messageOf(error).split("\n"), 0) };
  }
}
