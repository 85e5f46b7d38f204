import type { MessageWay } from "../../coordinator/attempt/messages.ts";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { chooseNamedBuild } from "../builds/choose-build.ts";
import { withDecision } from "../builds/open.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { requester } from "../request/requester.ts";

export interface TellOptions {
  readonly task: string | undefined;
  readonly now: boolean;
}

/** `tell BUILD --task ID TEXT`: says something to a task's agent. */
export function tell(context: Context, name: string, words: readonly string[], options: TellOptions): Promise<number> {
  const text = words.join(" ");
  if (text.trim() === "") {
    throw new WavesmithError("usage", "tell needs a text", {
      remedy: context.hints.command(`tell ${name} --task TASK "use the library that is there"`),
    });
  }
  return withDecision(context, async (builds) => {
    const buildId = await chooseNamedBuild(builds, context, name);
    const task = options.task ?? onlyRunningTask((await builds.see(buildId)).view);
    const { id, way } = await builds.tell(buildId, task, { text, by: requester(), urgent: options.now });
    if (context.json) context.out.json({ buildId, task, message: id, way });
    else context.out.line(`${task}: ${ways[way]}`);
    return exit.ok;
  });
}

const ways: Readonly<Record<MessageWay, string>> = {
  now: "sent to its agent; `wavesmith status` shows when the agent has received it",
  "next-attempt": "kept for the next attempt, because no agent can receive it now",
};

function onlyRunningTask({ build, tasks }: BuildView): string {
  const running = tasks.filter(({ status }) => status === "running");
  const [only, ...others] = running;
  if (only !== undefined && others.length === 0) return only.key;
  const keys = running.map(({ key }) => key).join(", ");
  const message = only === undefined ? `no task of ${build.id} is running` : `several tasks are running: ${keys}`;
  throw new WavesmithError("usage", message, { remedy: `name the task: wavesmith tell ${build.id} --task TASK "…"` });
}
