import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { stopIdleSandbox } from "../data/session.ts";
import { withSteering } from "../data/steering.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import type { App, BuildRow } from "../parts.ts";

const dayMs = 24 * 3600 * 1000;

/**
 * `shell [BUILD] [--task ID]`: opens a shell in the build's sandbox, in a temporary checkout of
 * what needs a look: the task's last commit, or the wave that waits or is blocked, or the attempt
 * that failed last, or else what has passed. The plan's setup runs there first, and the shell has
 * its variables. Changes are discarded on exit.
 */
export function openShell(context: Context, name: string | undefined, taskKey: string | undefined): Promise<number> {
  return withSteering(context, async ({ app }) => {
    const buildId = await findBuildOrLatest(app.store, context, name);
    const build = await app.store.builds.get({ id: buildId });
    const { sha, what } = await treeOf(app, buildId, taskKey);
    const { ensureSandbox } = await import("../../sandbox-lifecycle/ensure-sandbox.ts");
    const before = await app.ports.driver(build.sandboxDriver).find(build.projectId);
    const endpoint = await ensureSandbox(app.ports, build);
    const { guest } = endpoint;
    const treePath = `trees/${buildId}/shell-${process.pid}`;
    await app.ports.workspace.openTree({ projectId: build.projectId, guest, treePath, sha, reuse: false });
    if (!context.json)
      context.out.note(`temporary checkout of ${what} (${sha.slice(0, 12)}); changes are discarded on exit`);
    try {
      const { env, stages, reach } = await settingOf(app, endpoint, build, { sha, treePath });
      if (stages.length > 0) await setUp(context, guest, { ...reach, stages, labels: { shell: treePath } });
      return await converse(guest, treePath, env);
    } finally {
      await app.ports.workspace.closeTree(guest, treePath);
      // Started only for this shell, unless someone else uses it by now.
      if (before === null) await stopIdleSandbox(app, app.store, build.projectId);
    }
  });
}

interface NamedTree {
  readonly sha: string;
  readonly what: string;
}

async function treeOf(app: App, buildId: string, taskKey: string | undefined): Promise<NamedTree> {
  if (taskKey === undefined) return (await troubledTree(app, buildId)) ?? headOf(app, buildId);
  const task = await app.store.tasks.find({ buildId, key: taskKey });
  if (task === null) throw new WavesmithError("not-found", `build ${buildId} has no task ${taskKey}`);
  const attempts = await app.store.attempts.list({ taskId: task.id }, { by: "number" });
  const kept = attempts.findLast((attempt) => attempt.commitSha !== null);
  if (kept === undefined) throw new WavesmithError("not-found", `task ${taskKey} has committed nothing yet`);
  return { sha: present(kept.commitSha, "kept.commitSha"), what: `task ${taskKey}` };
}

async function headOf(app: App, buildId: string): Promise<NamedTree> {
  const { headSha } = await app.store.builds.get({ id: buildId });
  if (headSha === null) throw new WavesmithError("not-found", `build ${buildId} has no tree yet`);
  return { sha: headSha, what: "what has passed" };
}

/** The wave that a person has to look at, or the attempt for which its build failed. */
async function troubledTree({ store }: App, buildId: string): Promise<NamedTree | null> {
  const build = await store.builds.get({ id: buildId });
  const wave = await store.waves.find({ buildId }, { by: "number", descending: true });
  if (wave === null || (build.status !== "failed" && build.status !== "waiting")) return null;
  if (wave.headSha !== null && (wave.status === "blocked" || wave.status === "waiting")) {
    return {
      sha: wave.headSha,
      what: `wave ${wave.number}, which ${wave.status === "waiting" ? "waits" : "is blocked"}`,
    };
  }
  const attempts = await store.attempts.list({ waveId: wave.id }, { by: "createdAt" });
  const failed = attempts.findLast(({ commitSha, outcome }) => commitSha !== null && outcome !== "succeeded");
  if (failed === undefined || build.status !== "failed") return null;
  return {
    sha: present(failed.commitSha, "failed.commitSha"),
    what: `the last attempt of wave ${wave.number} (${failed.outcome})`,
  };
}

type Guest = Awaited<ReturnType<ReturnType<App["ports"]["driver"]>["ensure"]>>["guest"];

/** The environment of a job in this tree, and the stages that set the tree up. */
async function settingOf(
  { ports }: App,
  endpoint: Awaited<ReturnType<ReturnType<App["ports"]["driver"]>["ensure"]>>,
  { plan, projectId }: BuildRow,
  { sha, treePath }: { readonly sha: string; readonly treePath: string },
) {
  const { prepareJob } = await import("../../coordinator/job/job-setting.ts");
  return prepareJob({ ports, endpoint, plan, projectId, sha, treePath, mentions: [] });
}

/**
 * Runs the setup before the shell opens. Ctrl-C skips the rest of it; a failure is only reported.
 */
async function setUp(context: Context, guest: Guest, spec: Parameters<Guest["startJob"]>[1]): Promise<void> {
  const key = `shell-setup-${process.pid}-${Date.now()}`;
  context.out.note("setting up the tree; Ctrl-C skips it");
  const interrupts = watchInterrupts(process);
  const skipped = { reason: "the setup was skipped", graceMs: 500 };
  interrupts.on(() => void guest.cancelJob(key, skipped).catch(() => undefined)); // Done again below, where it may fail.
  try {
    await guest.startJob(key, spec);
    await copyOutput(guest, key, process.stderr);
    const state = await guest.findJob(key);
    const failed = state?.stages.find(({ exitCode }) => exitCode !== 0);
    if (interrupts.count > 0) context.warn("setup was skipped");
    else if (failed !== undefined) context.warn(`${failed.name} failed (exit ${failed.exitCode ?? "unknown"})`);
  } finally {
    interrupts.dispose();
    await guest.cancelJob(key, skipped);
    await guest.forgetJob(key);
  }
}

/** Connects this terminal to a shell in the tree and resolves with its exit code. */
async function converse(guest: Guest, treePath: string, env: Readonly<Record<string, string>>): Promise<number> {
  const { stdin, stdout } = process;
  const terminal = stdin.isTTY === true && stdout.isTTY === true;
  const { columns = 80, rows = 24 } = stdout;
  const start = `stty rows "$1" cols "$2"; exec "$(command -v bash || command -v sh)"`;
  const plain = ["sh"];
  // script(1) gives the shell a terminal of its own.
  const argv = terminal
    ? ["script", "--quiet", "--return", "--command", `sh -c '${start}' sh ${rows} ${columns}`, "/dev/null"]
    : plain;
  const key = `shell-${process.pid}-${Date.now()}`;
  const terminalEnv = { ...env, TERM: "xterm-256color" };
  const stage = { name: "shell", argv, cwd: treePath, env: terminalEnv, stdin: null, openStdin: true };
  const limits = { timeoutMs: dayMs, outputLimitBytes: 64 * 1024 * 1024 };
  await guest.startJob(key, { stages: [{ ...stage, ...limits }], writable: [treePath], labels: { shell: treePath } });
  const input = forwardInput(guest, key, terminal);
  // Without this, a signal (as from a closed terminal) would leave the shell and its sandbox
  // running.
  const interrupts = watchInterrupts(process);
  const left = { reason: "the shell was left", graceMs: 500 };
  interrupts.on(() => void guest.cancelJob(key, left).catch(() => undefined)); // Done again below, where it may fail.
  try {
    await copyOutput(guest, key, stdout);
    const state = await guest.findJob(key);
    return state?.stages[0]?.exitCode ?? exit.failed;
  } finally {
    input.end();
    interrupts.dispose();
    await guest.cancelJob(key, left);
    await guest.forgetJob(key);
  }
}

function forwardInput(guest: Guest, key: string, terminal: boolean): { end(): void } {
  const { stdin } = process;
  let seq = 0;
  let sending: Promise<void> = Promise.resolve();
  const send = (data: Buffer, end: boolean): void => {
    const sequence = seq++;
    sending = sending.then(() => guest.writeStdin(key, sequence, data, end ? { end } : {})).catch(() => undefined); // the shell has ended; the loop that copies its output tells so
  };
  const onData = (data: Buffer): void => send(data, false);
  const onEnd = (): void => send(Buffer.alloc(0), true);
  stdin.on("error", onEnd); // The terminal was closed.
  if (terminal) stdin.setRawMode(true);
  stdin.on("data", onData);
  stdin.on("end", onEnd);
  stdin.resume();
  return {
    end() {
      stdin.off("data", onData);
      stdin.off("end", onEnd);
      if (terminal) stdin.setRawMode(false);
      stdin.pause();
    },
  };
}

async function copyOutput(guest: Guest, key: string, stdout: NodeJS.WritableStream): Promise<void> {
  for (let offset = 0; ; ) {
    const chunk = await guest.readOutput(key, { offset, limitBytes: 256 * 1024, waitMs: 5_000 });
    offset = chunk.nextOffset;
    if (chunk.data.length > 0) stdout.write(chunk.data);
    else if (chunk.ended) return;
  }
}
