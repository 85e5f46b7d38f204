import { setTimeout as delay } from "node:timers/promises";
import {
  type BuildView,
  createBuildReader,
  createEventCursor,
  type EventCursor,
  liveAttempts,
} from "../../coordinator/build/read-build.ts";
import { isDiskFull } from "../../domain/disk-full.ts";
import type { Store } from "../parts.ts";
import type { Presenter } from "../view/presenter.ts";

const pollMs = 120;
const fullReadMs = 1_000;

export interface FollowOptions {
  readonly store: Store;
  readonly buildId: string;
  /** Where to start reporting: from the beginning, or after this cursor. */
  readonly from: "first" | EventCursor;
  readonly presenter: Pick<Presenter, "event" | "view" | "warn">;
  /** Called about once a second; return true to stop following. */
  readonly until?: () => Promise<boolean>;
}

export const isOver = (view: BuildView): boolean =>
  ["completed", "failed", "cancelled", "waiting"].includes(view.build.status);

/** Shows a build until it ends or waits for a person, and returns it as it is then. */
export async function follow(options: FollowOptions): Promise<BuildView> {
  const { store, buildId, presenter } = options;
  const reader = createBuildReader(store, buildId);
  const whole = options.from === "first";
  const cursor = options.from === "first" ? await createEventCursor(store, buildId, "first") : options.from;
  let view: BuildView | null = whole ? null : await reader.read();
  if (view !== null) presenter.view(view, view);
  let sign = "";
  let readAt = 0;
  const step = async (): Promise<boolean> => {
    const events = await cursor.next();
    const live = await liveAttempts(store, buildId);
    const due = Date.now() - readAt >= fullReadMs;
    if (events.length === 0 && live === sign && !due && view !== null) return false;
    const before = view;
    view = await reader.read();
    sign = live;
    readAt = Date.now();
    for (const event of events) presenter.event(event);
    presenter.view(before, view);
    if (isOver(view)) for (const event of await cursor.next()) presenter.event(event);
    return isOver(view) || (due && options.until !== undefined && (await options.until()));
  };
  await repeat(step);
  return view!;
}

/** Calls `look` repeatedly until it returns true; on a full disk, waits for space. */
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
