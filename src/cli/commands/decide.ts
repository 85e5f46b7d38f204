import { WavesmithError } from "../../domain/errors.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import { chooseBuild } from "../builds/choose-build.ts";
import { withDecision } from "../builds/open.ts";
import type { SteeredBuilds } from "../builds/port.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { shortSha } from "../output/format.ts";
import { requester } from "../request/requester.ts";
import { nextLines } from "../view/summary.ts";

/**
 * `approve [BUILD] [--resume]`: approves the waiting wave, and then continues the build if asked.
 */
export async function approve(
  context: Context,
  name: string | undefined,
  { resume: goesOn, wait }: { resume: boolean; wait: boolean },
): Promise<number> {
  let approved = "";
  const code = await withDecision(context, async (builds) => {
    const buildId = await chooseBuild(builds, context, name);
    approved = buildId;
    const pushed = await builds.approve(buildId, { by: requester() });
    if (pushed !== null && !context.json) {
      context.out.line(`your commits up to ${shortSha(pushed)} are part of it: they go through the gates first`);
    }
    return goesOn ? exit.ok : printDecision(context, builds, { buildId, decision: "approved" });
  });
  if (!goesOn) return code;
  const { resume } = await import("./resume.ts");
  return resume(context, approved, { wait });
}

/** `reject BUILD --reason …`: blocks the waiting wave; a retry gives the reason to the fixer. */
export function reject(context: Context, name: string | undefined, reason: string | undefined): Promise<number> {
  if (reason === undefined || reason.trim() === "") {
    throw new WavesmithError("usage", "reject needs a reason", {
      remedy: context.hints.command(`reject ${name ?? "BUILD"} --reason "what has to be different"`),
    });
  }
  return withDecision(context, async (builds) => {
    const buildId = await chooseBuild(builds, context, name);
    await builds.reject(buildId, { by: requester(), reason });
    return printDecision(context, builds, { buildId, decision: "rejected" });
  });
}

async function printDecision(
  context: Context,
  builds: SteeredBuilds,
  { buildId, decision }: { readonly buildId: string; readonly decision: "approved" | "rejected" },
): Promise<number> {
  const { view } = await builds.see(buildId);
  const { status } = view.build;
  if (context.json) {
    context.out.json({ buildId, decision, status });
    return exit.ok;
  }
  context.out.line(`build ${buildId}: ${decision}`);
  if (endedBuildStatuses.includes(status)) {
    for (const { tone, text } of nextLines(view, context.hints)) context.out.line(context.out.paint(tone, text));
  } else if (!(await builds.isDriven(view))) {
    context.out.line(`next: ${context.hints.command(`resume ${buildId}`)}`);
  }
  return exit.ok;
}
