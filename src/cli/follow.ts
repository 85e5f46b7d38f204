import {
  type BuildView,
  createBuildReader,
  createEventCursor,
  type EventCursor,
  liveAttempts,
} from "../coordinator/read-build.ts";
import { isDiskFull } from "../domain/disk-full.ts";
import type { Store } from "./parts.ts";
import type { Presenter } from "./view/presenter.ts";

const pollMs = 120;
const fullReadMs = 1_000;
/** How long a database may be away before following gives up. */
const patienceMs = 60_000;

export interface FollowOptions {
  readonly store: Store;
  readonly buildId: string;
  /** What is told: the whole build, or what comes after where this cursor stands. */
  readonly from: "first" | EventCursor;
  readonly presenter: Pick<Presenter, "event" | "view" | "warn">;
  /** Asked about once a second; true ends the following early. */
  readonly until?: () => Promise<boolean>;
}

export const isOver = (view: BuildView): boolean =>
  ["completed", "failed", "cancelled", "waiting"].includes(view.build.status);

/** Shows a build until it has ended (or waits for a person) and returns it as it is then. */
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
  await repeat(step, presenter);
  return view!;
}

/** Repeats a look until it says it was the last; a database that is away for a while is waited for. */
async function repeat(step: () => Promise<boolean>, presenter: Pick<Presenter, "warn">): Promise<void> {
  let awaySince: number | null = null;
  for (;;) {
    try {
      if (await step()) return;
      awaySince = null;
    } catch (error) {
      if (!isAway(error) && !isDiskFull(error)) throw error;
      if (isDiskFull(error)) {
        // Said by whoever drives the build; it waits for room as long as nobody ends it.
        await new Promise((wake) => setTimeout(wake, fullReadMs));
        continue;
      }
      if (awaySince === null) presenter.warn("the database does not answer; it is waited for");
      awaySince ??= Date.now();
      if (Date.now() - awaySince > patienceMs) throw error;
    }
    await new Promise((wake) => setTimeout(wake, pollMs));
  }
}

const awayCodes = /^(ECONNREFUSED|ECONNRESET|ENOENT|EPIPE|08\d{3}|57P0\d)$/;

/** Whether the failure, or what caused it, is a lost connection to the database. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  if (code !== undefined && awayCodes.test(code)) return true;
  if (/Connection terminated|timeout exceeded when trying to connect|not queryable/.test(error.message)) return true;
  return isAway(error.cause);
}
