import type { BuildView } from "../../coordinator/build/build-view.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { itemAt } from "../../domain/known.ts";
import type { BuildWatch, SteeredBuilds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import type { Interrupts } from "../interrupts.ts";
import { askDecision, type KeyedDecision, openDecisions } from "../keys/decision-keys.ts";
import { describeError } from "../output/errors.ts";
import { aborted } from "../preview/show-preview.ts";
import { requester } from "../request/requester.ts";
import { createScreen } from "../view/screen.ts";
import { segment } from "../view/segments.ts";

interface Stopped {
  readonly context: Context;
  readonly builds: SteeredBuilds;
  readonly interrupts: Interrupts;
  readonly buildId: string;
}

/**
 * Asks the person at the terminal to approve, reject or retry a build that stopped, and does it.
 * Returns where to follow the build from, even if another command decided meanwhile; null if the
 * person leaves it, or there is nothing to decide.
 */
export async function nextDecision(options: Stopped, stopped: BuildView): Promise<BuildWatch | null> {
  const { context, builds, buildId } = options;
  for (let view = stopped; openDecisions(view).length > 0; view = (await builds.see(buildId)).view) {
    const watch = await builds.watch(buildId, "now");
    const answer = await ask(options, watch, view);
    if (answer === "left") {
      watch.close();
      return null;
    }
    try {
      if (answer !== "moved") await carryOut(builds, view, answer);
      return watch;
    } catch (error) {
      watch.close();
      if (!(error instanceof WavesmithError)) throw error;
      context.out.note(describeError(error, { verbose: false, hints: context.hints }));
    }
  }
  return null;
}

async function ask(
  { context, interrupts }: Stopped,
  watch: BuildWatch,
  view: BuildView,
): Promise<KeyedDecision | "left" | "moved"> {
  const { out } = context;
  const stop = new AbortController();
  interrupts.on(() => stop.abort());
  const screen = createScreen(out);
  const moved = untilMoved(watch, view, stop.signal).finally(() => stop.abort());
  moved.catch(() => undefined); // Awaited below.
  const decision = await askDecision(process.stdin, openDecisions(view), {
    say: (text) => screen.log([out.paint("strong", text)]),
    typing: (line) => screen.show([[segment("plain", `> ${line}`)]]),
    interrupted: () => interrupts.raise(),
    signal: stop.signal,
  });
  stop.abort();
  screen.close();
  await moved;
  return decision ?? (interrupts.count > 0 ? "left" : "moved");
}

const lookMs = 1_000;

/** Resolves when another command has decided, or at the signal. */
async function untilMoved(watch: BuildWatch, { build }: BuildView, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const { status, epoch, headSha } = (await watch.read()).build;
    if (status !== build.status || epoch !== build.epoch || headSha !== build.headSha) return;
    await aborted(signal, lookMs);
  }
}

/** Decides about the head that was shown, not about a later one. */
async function carryOut(builds: SteeredBuilds, { build, waves }: BuildView, decision: KeyedDecision): Promise<void> {
  if (decision.is === "retry") return builds.retry(build.id, { interactive: true });
  const { number, headSha } = itemAt(waves, -1);
  const about = { by: requester(), about: { waveNumber: number, sha: headSha } };
  if (decision.is === "reject") await builds.reject(build.id, { ...about, reason: decision.reason });
  else await builds.approve(build.id, about);
}
