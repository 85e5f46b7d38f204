import { setTimeout as delay } from "node:timers/promises";
import type { BuildView } from "../../coordinator/build/build-view.ts";
import { isDiskFull } from "../../domain/disk-full.ts";
import { present } from "../../domain/known.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import type { BuildWatch } from "../builds/port.ts";
import type { Presenter } from "../view/presenter.ts";

const pollMs = 120;
const fullReadMs = 1_000;

export interface FollowedWatch {
  readonly watch: BuildWatch;
  /** Whether to report all of the build, or only what happens from now on. */
  readonly whole: boolean;
  readonly presenter: Pick<Presenter, "event" | "view" | "warn">;
  /** Called about once a second; return true to stop following. */
  readonly until?: () => Promise<boolean>;
}

export const isOver = ({ build }: BuildView): boolean =>
  build.status === "waiting" || endedBuildStatuses.includes(build.status);

/** Shows a build until it ends or waits for a person, and returns it as it is then. */
export async function follow({ watch, whole, presenter, until }: FollowedWatch): Promise<BuildView> {
  let view: BuildView | null = whole ? null : await watch.read();
  if (view !== null) presenter.view(view, view);
  let readAt = 0;
  const step = async (): Promise<boolean> => {
    const { events, isChanged } = await watch.next();
    const due = Date.now() - readAt >= fullReadMs;
    if (events.length === 0 && !isChanged && !due && view !== null) return false;
    const before = view;
    view = await watch.read();
    readAt = Date.now();
    for (const event of events) presenter.event(event);
    presenter.view(before, view);
    if (isOver(view)) for (const event of (await watch.next()).events) presenter.event(event);
    return isOver(view) || (due && until !== undefined && (await until()));
  };
  try {
    await repeat(step);
  } finally {
    watch.close();
  }
  return present(view, "the build");
}

/** Calls `look` repeatedly until it returns true; if the disk is full, waits for space. */
async function repeat(step: () => Promise<boolean>): Promise<void> {
  for (;;) {
    const isLast = await step().catch((error: unknown) => {
      // The process that drives the build reports this; it waits for space until someone stops it.
      if (isDiskFull(error)) return null;
      throw error;
    });
    if (isLast === true) return;
    await delay(isLast === null ? fullReadMs : pollMs);
  }
}
