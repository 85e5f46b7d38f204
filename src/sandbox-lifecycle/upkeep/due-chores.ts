import { makeEvent } from "../../domain/events/events.ts";
import type { LifecyclePorts } from "../port.ts";
import { presentStates } from "../sandbox-events.ts";
import { isDueToEnd } from "./idle-sandboxes.ts";

/** Periodic chores, as the events that request them. */
export type Chore = "sandbox/check.due" | "sandbox/idle.due" | "sandbox/reconcile.due" | "snapshot/retention.due";

/**
 * Sends the events of the chores that have something to do in this minute, so that none runs for
 * nothing; returns their names. Safe to call twice in a minute, because the ids name it.
 */
export async function askForChores(ports: LifecyclePorts): Promise<Chore[]> {
  const minute = Math.floor(ports.clock.now().getTime() / 60_000);
  const chores = await dueChores(ports, minute);
  if (chores.length > 0) await ports.events.send(chores.map((name) => makeEvent(name, String(minute), 0, { minute })));
  return chores;
}

async function dueChores(ports: LifecyclePorts, minute: number): Promise<Chore[]> {
  const { store } = ports;
  const present = await store.sandboxes.list({ state: presentStates });
  const previews = await store.previews.list({ status: ["starting", "ready"] });
  const isHourly = (at: number): boolean => minute % 60 === at;
  const chores: [Chore, boolean][] = [
    ["sandbox/check.due", present.some(({ state }) => state === "running")],
    ["sandbox/idle.due", previews.length > 0 || present.some((row) => isDueToEnd(ports, row))],
    // Once an hour even without any, because a driver may have sandboxes that the database has
    // forgotten.
    ["sandbox/reconcile.due", (minute % 5 === 0 && present.length + previews.length > 0) || isHourly(5)],
    ["snapshot/retention.due", isHourly(17) && (await hasSnapshots(ports))],
  ];
  return chores.flatMap(([chore, isDue]) => (isDue ? [chore] : []));
}

const hasSnapshots = async ({ store, snapshots }: LifecyclePorts): Promise<boolean> =>
  (await store.snapshots.find({ state: ["writing", "kept"] })) !== null || (await snapshots.list()).length > 0;
