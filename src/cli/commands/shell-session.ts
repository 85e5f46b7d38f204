import { createInterface, type Interface } from "node:readline";
import type { AgentSession } from "../../coordinator/attempt/agent-session.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import { type Context, refuseServer } from "../context.ts";
import { findBuildOrLatest } from "../data/find-build.ts";
import { stopIdleSandbox } from "../data/session.ts";
import { withSteering } from "../data/steering.ts";
import { watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { harmless } from "../output/format.ts";
import type { App } from "../parts.ts";

/**
 * `shell --session [BUILD] [--task ID]`: talks with the agent of the attempt that failed last, or
 * of the task's last attempt, in its own session. Changes are discarded on exit, but the next
 * attempt continues the session.
 */
export async function openSessionShell(context: Context, name: string | undefined, taskKey: string | undefined) {
  await refuseServer(context, "an agent's session is opened on the machine of its sandbox");
  return withSteering(context, async ({ app }) => {
    const buildId = await findBuildOrLatest(app.store, context, name);
    const build = await app.store.builds.get({ id: buildId });
    const { openAgentSession } = await import("../../coordinator/attempt/agent-session.ts");
    const before = await app.ports.driver(build.sandboxDriver).find(build.projectId);
    const session = await openAgentSession(app.ports, build, taskKey ?? (await failedTask(app, buildId)));
    context.out.note(`the session of ${session.label}; type to the agent, Ctrl-C interrupts it, Ctrl-D leaves`);
    context.out.note("changes to its tree are discarded on exit");
    context.out.note("a retry continues the session; opencode and Gemini CLI begin a new one");
    try {
      return await converse(context, app, session);
    } finally {
      await session.close();
      // Started only for this session, unless someone else uses it by now.
      if (before === null) await stopIdleSandbox(app, app.store, build.projectId);
    }
  });
}

async function failedTask({ store }: App, buildId: string): Promise<string> {
  const attempts = await store.attempts.list({ buildId, kind: "task" }, { by: "createdAt", descending: true });
  const failed = attempts.find(({ outcome, taskId }) => outcome !== "succeeded" && taskId !== null);
  if (failed === undefined) {
    throw new WavesmithError("not-found", `no attempt of build ${buildId} failed, so no session is left`, {
      remedy: `wavesmith shell ${buildId}`,
    });
  }
  return (await store.tasks.get({ id: present(failed.taskId, "failed.taskId") })).key;
}

/** Passes lines between a person and the agent; resolves with the exit code when either leaves. */
async function converse(context: Context, app: App, session: AgentSession): Promise<number> {
  const { guest, jobKey } = session;
  const { stdin, stdout } = process;
  const terminal = stdin.isTTY === true && stdout.isTTY === true;
  const input = createInterface({ input: stdin, prompt: "> ", terminal, ...(terminal && { output: stdout }) });
  const write = createWriter(session);
  let turns = 0;
  input.on("line", (line) => {
    if (line.trim() === "") return terminal && turns === 0 ? input.prompt() : undefined;
    turns += 1;
    write(session.write({ prompt: line }));
  });
  input.on("close", () => write("", true));
  input.on("SIGINT", () => (turns > 0 ? write(session.write({ cancel: true })) : input.close()));
  const interrupts = watchInterrupts(process);
  const left = { reason: "the session was left", graceMs: 5_000 };
  interrupts.on(() => void guest.cancelJob(jobKey, left).catch(() => undefined)); // `close` does it again.
  try {
    await forEachLine(session, (line) => {
      const text = app.ports.agents.readable(line);
      const isEnd = app.ports.agents.endOf(line) !== null;
      if (text !== "") context.out.line(harmless(text));
      if (isEnd) turns -= 1;
      if (terminal && turns === 0 && (isEnd || text !== "")) promptAgain(input);
    });
    return (await guest.findJob(jobKey))?.stages[0]?.exitCode === 0 ? exit.ok : exit.failed;
  } finally {
    input.close();
    interrupts.dispose();
  }
}

/** Asks for the next line, unless the person has left. */
function promptAgain(input: Interface & { readonly closed?: boolean }): void {
  if (input.closed !== true) input.prompt();
}

/** Writes to the agent in the order of the calls; what comes after its end is lost. */
function createWriter({ guest, jobKey }: AgentSession): (text: string, end?: boolean) => void {
  let sequence = 0;
  let writing: Promise<unknown> = Promise.resolve();
  return (text, end = false) => {
    const number = sequence++;
    writing = writing
      .then(() => guest.writeStdin(jobKey, number, Buffer.from(text), end ? { end } : {}))
      .catch(() => undefined); // The agent has ended; the loop over its output tells so.
  };
}

async function forEachLine({ guest, jobKey }: AgentSession, show: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let pending = "";
  for (let offset = 0; ; ) {
    const chunk = await guest.readOutput(jobKey, { offset, limitBytes: 256 * 1024, waitMs: 5_000 });
    offset = chunk.nextOffset;
    const lines = (pending + decoder.decode(chunk.data, { stream: true })).split("\n");
    pending = lines.pop() ?? "";
    for (const line of lines) show(line);
    if (chunk.data.length === 0 && chunk.ended) return;
  }
}
