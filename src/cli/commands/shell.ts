import type { BuildShell, ShellInput, TerminalSize } from "../../api/build-shell.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withBuilds } from "../builds/open.ts";
import type { Context, Server } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { stopIdleSandbox } from "../data/session.ts";
import { withSteering } from "../data/steering.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { openServerSocket } from "../server/server-socket.ts";

/**
 * `shell [BUILD] [--task ID]`: opens a shell in the build's sandbox, in a temporary checkout of
 * what needs a look. The plan's setup runs there first, and the shell has its variables. Changes
 * are discarded on exit.
 */
export async function openShell(
  context: Context,
  name: string | undefined,
  taskKey: string | undefined,
): Promise<number> {
  const server = await context.server();
  if (server === null) return openHere(context, name, taskKey);
  return withBuilds(context, "shell", async (builds) =>
    openThere(context, server, { buildId: await chooseBuild(builds, context, name), taskKey }),
  );
}

function openHere(context: Context, name: string | undefined, taskKey: string | undefined): Promise<number> {
  return withSteering(context, async ({ app }) => {
    const buildId = await findBuildOrLatest(app.store, context, name);
    const build = await app.store.builds.get({ id: buildId });
    const { openBuildShell, setUpShell } = await import("../../api/build-shell.ts");
    const before = await app.ports.driver(build.sandboxDriver).find(build.projectId);
    const shell = await openBuildShell(app.ports, build, { name: String(process.pid), taskKey });
    try {
      await whileInterruptible((signal) => setUpShell(shell, { ...opening(context), signal }));
      return await converse(shell);
    } finally {
      await shell.close();
      // Started only for this shell, unless someone else uses it by now.
      if (before === null) await stopIdleSandbox(app, app.store, build.projectId);
    }
  });
}

/** Shows what happens before the shell is ready. */
const opening = ({ json, out, warn }: Context) => ({
  note: (text: string): void => (json ? undefined : out.note(text)),
  warn,
  write: (data: Buffer): void => void process.stderr.write(data),
});

/** Runs `work` with a signal that Ctrl-C aborts. */
async function whileInterruptible(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const interrupts = watchInterrupts(process);
  const stopping = new AbortController();
  interrupts.on(() => stopping.abort());
  try {
    await work(stopping.signal);
  } finally {
    interrupts.dispose();
  }
}

interface AskedShell {
  readonly buildId: string;
  readonly taskKey: string | undefined;
}

/** Connects this terminal with a shell on a server. */
async function openThere(context: Context, server: Server, { buildId, taskKey }: AskedShell): Promise<number> {
  const size = ownTerminal();
  const asked = new URLSearchParams({ terminal: String(size !== null) });
  if (taskKey !== undefined) asked.set("task", taskKey);
  for (const [name, value] of Object.entries(size ?? {})) asked.set(name, String(value));
  const socket = await openServerSocket(server, `/builds/${encodeURIComponent(buildId)}/shell?${asked}`);
  const { note, warn, write } = opening(context);
  const interrupts = watchInterrupts(process);
  let input: { end(): void } | null = null;
  interrupts.on(() => (input === null ? socket.say({ skip: true }) : socket.close()));
  const begin = (): void => {
    input = forwardInput(size !== null, {
      type: (data) => socket.send(data),
      resize: async (next) => socket.say(next),
      end: async () => socket.say({ end: true }),
    });
  };
  try {
    const code = await socket.read({
      output: (data) => (input === null ? write(data) : void process.stdout.write(data)),
      said({ note: noted, warning, ready }) {
        if (typeof noted === "string") note(noted);
        else if (typeof warning === "string") warn(warning);
        else if (ready === true) begin();
      },
    });
    return code ?? exit.failed;
  } finally {
    (input as { end(): void } | null)?.end();
    interrupts.dispose();
    socket.close();
  }
}

/** The size of this terminal; null if input or output is none. */
function ownTerminal(): TerminalSize | null {
  const { stdin, stdout } = process;
  const { columns = 80, rows = 24 } = stdout;
  return stdin.isTTY === true && stdout.isTTY === true ? { rows, columns } : null;
}

/** Connects this terminal to a shell in the tree and resolves with its exit code. */
async function converse(shell: BuildShell): Promise<number> {
  const { guest } = shell;
  const size = ownTerminal();
  const key = `shell-${process.pid}-${Date.now()}`;
  const { followJob, shellInput, shellJob } = await import("../../api/build-shell.ts");
  await guest.startJob(key, shellJob(shell, size));
  const input = forwardInput(size !== null, shellInput(guest, key, size !== null));
  // Without this, a signal (as from a closed terminal) would leave the shell and its sandbox
  // running.
  const interrupts = watchInterrupts(process);
  const left = { reason: "the shell was left", graceMs: 500 };
  interrupts.on(() => void guest.cancelJob(key, left).catch(() => undefined)); // Done again below, where it may fail.
  try {
    await followJob(guest, key, (data) => void process.stdout.write(data));
    const state = await guest.findJob(key);
    return state?.stages[0]?.exitCode ?? exit.failed;
  } finally {
    input.end();
    interrupts.dispose();
    await guest.cancelJob(key, left);
    await guest.forgetJob(key);
  }
}

/** Passes on, in order, what is typed until the input ends, and the size of this window. */
function forwardInput(terminal: boolean, shell: ShellInput): { end(): void } {
  const { stdin, stdout } = process;
  let sending: Promise<void> = Promise.resolve();
  const send = (write: () => Promise<void>): void => {
    sending = sending.then(write).catch(() => undefined); // The shell has ended; reading its output tells so.
  };
  const onData = (data: Buffer): void => send(() => shell.type(data));
  const onEnd = (): void => send(() => shell.end());
  const onResize = (): void => send(() => shell.resize({ rows: stdout.rows, columns: stdout.columns }));
  stdin.on("error", onEnd); // The terminal was closed.
  if (terminal) stdin.setRawMode(true);
  stdin.on("data", onData);
  stdin.on("end", onEnd);
  if (terminal) stdout.on("resize", onResize);
  stdin.resume();
  return {
    end() {
      stdin.off("data", onData);
      stdin.off("end", onEnd);
      stdout.off("resize", onResize);
      if (terminal) stdin.setRawMode(false);
      stdin.pause();
    },
  };
}
