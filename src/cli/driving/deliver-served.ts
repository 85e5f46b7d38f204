import { createBuildReader } from "../../coordinator/build/read-build.ts";
import { messageOf } from "../../domain/errors.ts";
import type { DomainEvent } from "../../domain/events/events.ts";
import type { Context } from "../context.ts";
import { type App, authorityPath, type Config } from "../parts.ts";
import { deliverAtEnd } from "./delivery.ts";

/** Delivers the builds that `serve` completes to the repositories that they were built from. */
export interface DeliversServed {
  /** Takes note of an event; never throws. */
  look(event: DomainEvent): void;
  /** Resolves once what began is delivered. */
  end(): Promise<void>;
}

/** Delivers one build after another, because two may move branches of one repository. */
export function createDeliversServed(context: Context, config: Config, app: () => App): DeliversServed {
  let work: Promise<void> = Promise.resolve();
  const deliver = async (buildId: string): Promise<void> => {
    const view = await createBuildReader(app().store, buildId).read();
    const end = await deliverAtEnd({ context, view, authority: () => authorityPath(config, view.build.projectId) });
    if (end?.delivered == null) return;
    const { root, branch, commit } = end.delivered;
    if (context.json) context.out.json({ type: "build.delivered", buildId, root, branch, commit });
    else for (const { tone, text } of end.lines) context.out.line(context.out.paint(tone, text));
  };
  return {
    look({ name, data }) {
      const buildId = name === "project/build.completed" && "buildId" in data ? data.buildId : undefined;
      if (buildId === undefined) return;
      const warn = (error: unknown): void => context.warn(`build ${buildId} is not delivered: ${messageOf(error)}`);
      work = work.then(() => deliver(buildId)).catch(warn);
    },
    end: () => work,
  };
}
