import type { OtherAgent } from "../../coordinator/plan/other-agent.ts";
import type { Context } from "../context.ts";
import { isInteractive } from "../driving/answering.ts";
import { goOn, type ResumeOptions } from "./resume.ts";

/**
 * `retry BUILD`: starts new attempts for what failed, then continues like `resume`. Fails with
 * `conflict` if there is nothing to retry.
 */
export function retry(
  context: Context,
  name: string | undefined,
  options: ResumeOptions & OtherAgent & { readonly unchanged: boolean },
): Promise<number> {
  return goOn(context, name, { ...options, doing: "retrying" }, async ({ builds }, { build }) => {
    const { model, agent, unchanged } = options;
    await builds.requireDriver(build.sandboxDriver);
    await builds.retry(build.id, { model, agent, unchanged, interactive: isInteractive(context) });
    return true;
  });
}
