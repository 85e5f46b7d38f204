import { prepareJob } from "../coordinator/job/job-setting.ts";
import type { Ports } from "../coordinator/port.ts";
import { WavesmithError } from "../domain/errors.ts";
import { present } from "../domain/known.ts";
import type { GuestClient, JobSpec, StageSpec } from "../sandbox/port.ts";
import { ensureSandbox } from "../sandbox-lifecycle/ensure-sandbox.ts";
import type { BuildRow, Tables } from "../store/port.ts";

// A person's shell in a build's sandbox: of `wavesmith shell` and of the server's terminals. It
// runs in a temporary checkout; changes are discarded when it closes.

const dayMs = 24 * 3600 * 1000;

export interface BuildShell {
  readonly guest: GuestClient;
  readonly sha: string;
  /** The content of the checkout, such as `task api`. */
  readonly what: string;
  readonly treePath: string;
  readonly env: Readonly<Record<string, string>>;
  /** The job that sets the tree up; null if there is nothing to do. */
  readonly setup: JobSpec | null;
  /** Removes the checkout. */
  close(): Promise<void>;
}

/**
 * Opens a checkout of what needs a look: the task's last commit, or the wave that waits or is
 * blocked, or the attempt that failed last, or else what has passed. `name` keeps it apart from
 * other shells. Fails with `not-found` where nothing was committed.
 */
export async function openBuildShell(
  ports: Ports,
  build: BuildRow,
  { name, taskKey }: { readonly name: string; readonly taskKey: string | undefined },
): Promise<BuildShell> {
  const { id: buildId, projectId, plan } = build;
  const { sha, what } = await treeOf(ports.store, build, taskKey);
  const endpoint = await ensureSandbox(ports, build);
  const { guest } = endpoint;
  const treePath = `trees/${buildId}/shell-${name}`;
  const close = (): Promise<void> => ports.workspace.closeTree(guest, treePath);
  await ports.workspace.openTree({ projectId, guest, treePath, sha, reuse: false });
  try {
    const frame = { ports, endpoint, plan, projectId, sha, treePath, mentions: [] };
    const { env, stages, reach } = await prepareJob(frame);
    const setup = stages.length === 0 ? null : { ...reach, stages, labels: { shell: treePath } };
    return { guest, sha, what, treePath, env: { ...env, TERM: "xterm-256color" }, setup, close };
  } catch (error) {
    await close().catch(() => undefined); // The first error says more.
    throw error;
  }
}

/** Where what happens before a shell is ready is shown. */
export interface ShellOpening {
  note(text: string): void;
  warn(text: string): void;
  /** Takes what the setup prints. */
  write(data: Buffer): void | Promise<void>;
  /** Skips the rest of the setup. */
  readonly signal: AbortSignal;
}

/** Says what a shell's checkout is, and runs the plan's setup there; a failure is only reported. */
export async function setUpShell(shell: BuildShell, { note, warn, write, signal }: ShellOpening): Promise<void> {
  const { guest, setup, treePath, what, sha } = shell;
  note(`temporary checkout of ${what} (${sha.slice(0, 12)}); changes are discarded on exit`);
  if (setup === null) return;
  const key = `shell-setup-${treePath.split("/").at(-1)}`;
  note("setting up the tree; Ctrl-C skips it");
  const skipped = { reason: "the setup was skipped", graceMs: 500 };
  const skip = (): void => void guest.cancelJob(key, skipped).catch(() => undefined); // Done again below.
  signal.addEventListener("abort", skip, { once: true });
  try {
    await guest.startJob(key, setup);
    if (signal.aborted) skip();
    await followJob(guest, key, write);
    const failed = (await guest.findJob(key))?.stages.find(({ exitCode }) => exitCode !== 0);
    if (signal.aborted) warn("setup was skipped");
    else if (failed !== undefined) warn(`${failed.name} failed (exit ${failed.exitCode ?? "unknown"})`);
  } finally {
    signal.removeEventListener("abort", skip);
    await guest.cancelJob(key, skipped);
    await guest.forgetJob(key);
  }
}

/** The size of a terminal. */
export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

/**
 * Gives a shell a terminal by script(1), which cannot change its size later. So its stdin is lines,
 * which `shellInput` writes: a reader beside it passes on what is typed and sets the size in
 * between.
 */
const terminalScript = `
here=$(mktemp -d) && mkfifo "$here/typed" "$here/tty" && exec 3<&0 || exit
{
  read -r tty <"$here/tty"
  rm -r "$here"
  while read -r kind one two; do
    case $kind in
    size) stty -F "$tty" rows "$one" cols "$two" ;;
    typed) printf %s "$one" | base64 -d ;;
    esac
  done <&3
} >"$here/typed" 2>/dev/null &
start='exec "$(command -v bash || command -v sh)"'
script --quiet --return --command "tty >'$here/tty'; stty rows $1 cols $2; $start" /dev/null <"$here/typed"
code=$?
kill $!
exit $code
`;
/** The reader takes each line whole into its memory. */
const lineBytes = 32 * 1024;

/** The input of a shell, in the order of the calls, which fail once the shell has ended. */
export interface ShellInput {
  type(data: Buffer): Promise<void>;
  /** Changes the size of its terminal, if it has one. */
  resize(size: TerminalSize): Promise<void>;
  end(): Promise<void>;
}

/** Writes to a job of `shellJob`. */
export function shellInput(guest: GuestClient, key: string, hasTerminal: boolean): ShellInput {
  let sequence = 0;
  let written: Promise<void> = Promise.resolve();
  const write = (data: Buffer | string, options?: { readonly end: boolean }): Promise<void> => {
    written = written.then(() => guest.writeStdin(key, sequence++, data, options));
    return written;
  };
  return {
    type: (data) => write(hasTerminal ? terminalInput(data) : data),
    resize: ({ rows, columns }) => (hasTerminal ? write(`size ${rows} ${columns}\n`) : written),
    end: () => write("", { end: true }),
  };
}

function terminalInput(typed: Buffer): string {
  const lines: string[] = [];
  for (let at = 0; at < typed.length; at += lineBytes)
    lines.push(`typed ${typed.subarray(at, at + lineBytes).toString("base64")}\n`);
  return lines.join("");
}

/**
 * The job of the shell itself. With `terminal` null, it is a plain shell without one.
 * `shellInput` writes to both.
 */
export function shellJob({ treePath, env }: BuildShell, terminal: TerminalSize | null): JobSpec {
  const argv =
    terminal === null ? ["sh"] : ["sh", "-c", terminalScript, "sh", String(terminal.rows), String(terminal.columns)];
  const stage: StageSpec = {
    ...{ name: "shell", argv, cwd: treePath, env, stdin: null, openStdin: true },
    ...{ timeoutMs: dayMs, outputLimitBytes: 64 * 1024 * 1024 },
  };
  return { stages: [stage], writable: [treePath], labels: { shell: treePath } };
}

/** Calls `write` with what a job prints, until its end, and waits for each call. */
export async function followJob(
  guest: GuestClient,
  key: string,
  write: (data: Buffer) => void | Promise<void>,
): Promise<void> {
  for (let offset = 0; ; ) {
    const chunk = await guest.readOutput(key, { offset, limitBytes: 256 * 1024, waitMs: 5_000 });
    offset = chunk.nextOffset;
    if (chunk.data.length > 0) await write(chunk.data);
    else if (chunk.ended) return;
  }
}

interface NamedTree {
  readonly sha: string;
  readonly what: string;
}

async function treeOf(store: Tables, build: BuildRow, taskKey: string | undefined): Promise<NamedTree> {
  if (taskKey === undefined) return (await troubledTree(store, build)) ?? headOf(build);
  const task = await store.tasks.find({ buildId: build.id, key: taskKey });
  if (task === null) throw new WavesmithError("not-found", `build ${build.id} has no task ${taskKey}`);
  const attempts = await store.attempts.list({ taskId: task.id }, { by: "number" });
  const kept = attempts.findLast((attempt) => attempt.commitSha !== null);
  if (kept === undefined) throw new WavesmithError("not-found", `task ${taskKey} has committed nothing yet`);
  return { sha: present(kept.commitSha, "kept.commitSha"), what: `task ${taskKey}` };
}

function headOf({ id, headSha }: BuildRow): NamedTree {
  if (headSha === null) throw new WavesmithError("not-found", `build ${id} has no tree yet`);
  return { sha: headSha, what: "what has passed" };
}

/** The wave that a person has to look at, or the attempt for which its build failed. */
async function troubledTree(store: Tables, { id: buildId, status }: BuildRow): Promise<NamedTree | null> {
  const wave = await store.waves.find({ buildId }, { by: "number", descending: true });
  if (wave === null || (status !== "failed" && status !== "waiting")) return null;
  if (wave.headSha !== null && (wave.status === "blocked" || wave.status === "waiting")) {
    const state = wave.status === "waiting" ? "waits" : "is blocked";
    return { sha: wave.headSha, what: `wave ${wave.number}, which ${state}` };
  }
  const attempts = await store.attempts.list({ waveId: wave.id }, { by: "createdAt" });
  const failed = attempts.findLast(({ commitSha, outcome }) => commitSha !== null && outcome !== "succeeded");
  if (failed === undefined || status !== "failed") return null;
  const sha = present(failed.commitSha, "failed.commitSha");
  return { sha, what: `the last attempt of wave ${wave.number} (${failed.outcome})` };
}
