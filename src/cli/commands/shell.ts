import type { BuildShell } from "../../api/build-shell.ts";
import type { Context } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { stopIdleSandbox } from "../data/session.ts";
import { withSteering } from "../data/steering.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";

/**
 * `shell [BUILD] [--task ID]`: opens a shell in the build's sandbox, in a temporary checkout of
 * what needs a look. The plan's setup runs there first, and the shell has its variables. Changes
 * are discarded on exit.
 */
export function openShell(context: Context, name: string | undefined, taskKey: string | undefined): Promise<number> {
  return withSteering(context, async ({ app }) => {
    const buildId = await findBuildOrLatest(app.store, context, name);
    const build = await app.store.builds.get({ id: buildId });
    const { openBuildShell } = await import("../../api/build-shell.ts");
    const before = await app.ports.driver(build.sandboxDriver).find(build.projectId);
    const shell = await openBuildShell(app.ports, build, { name: String(process.pid), taskKey });
    if (!context.json)
      context.out.note(
        `temporary checkout of ${shell.what} (${shell.sha.slice(0, 12)}); changes are discarded on exit`,
      );
    try {
      if (shell.setup !== null) await setUp(context, shell.guest, shell.setup);
      return await converse(shell);
    } finally {
      await shell.close();
      // Started only for this shell, unless someone else uses it by now.
      if (before === null) await stopIdleSandbox(app, app.store, build.projectId);
    }
  });
}

type Guest = BuildShell["guest"];

/**
 * Runs the setup before the shell opens. Ctrl-C skips the rest of it; a failure is only reported.
 */
async function setUp(context: Context, guest: Guest, spec: Parameters<Guest["startJob"]>[1]): Promise<void> {
  const { followJob } = await import("../../api/build-shell.ts");
  const key = `shell-setup-${process.pid}-${Date.now()}`;
  context.out.note("setting up the tree; Ctrl-C skips it");
  const interrupts = watchInterrupts(process);
  const skipped = { reason: "the setup was skipped", graceMs: 500 };
  interrupts.on(() => void guest.cancelJob(key, skipped).catch(() => undefined)); // Done again below, where it may fail.
  try {
    await guest.startJob(key, spec);
    await followJob(guest, key, (data) => void process.stderr.write(data));
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
async function converse(shell: BuildShell): Promise<number> {
  const { guest } = shell;
  const { stdin, stdout } = process;
  const terminal = stdin.isTTY === true && stdout.isTTY === true;
  const { columns = 80, rows = 24 } = stdout;
  const key = `shell-${process.pid}-${Date.now()}`;
  const { followJob, shellJob } = await import("../../api/build-shell.ts");
  await guest.startJob(key, shellJob(shell, terminal ? { rows, columns } : null));
  const input = forwardInput(guest, key, terminal);
  // Without this, a signal (as from a closed terminal) would leave the shell and its sandbox
  // running.
  const interrupts = watchInterrupts(process);
  const left = { reason: "the shell was left", graceMs: 500 };
  interrupts.on(() => void guest.cancelJob(key, left).catch(() => undefined)); // Done again below, where it may fail.
  try {
    await followJob(guest, key, (data) => void stdout.write(data));
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
