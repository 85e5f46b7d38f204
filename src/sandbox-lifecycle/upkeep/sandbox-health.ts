import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { GuestHealth, SandboxEndpoint } from "../../sandbox/port.ts";
import type { SandboxRow } from "../../store/port.ts";
import { recordBoot, settleIntent } from "../boots.ts";
import { noteLoss, whyGone } from "../losses.ts";
import type { LifecyclePorts } from "../port.ts";
import { withSandboxAlone } from "../sandbox-locks.ts";
import { watchVolume } from "../volume-limit.ts";

// A check starts nothing. Its result is recorded only if the row still has the boot that was
// checked, so any number of processes may check at once: the cron, one that got a hint, and one
// that needs room.

/**
 * How long to wait for a guest on a busy machine; if it does not answer, we ask again in a minute.
 */
const answerMs = 25_000;
/** A sandbox that is silent for this long counts as lost. */
const silentMs = 3 * 60_000;
const atOnce = 8;

/**
 * Looks at every sandbox that should run. One that is gone, or silent for minutes, is recorded as
 * lost with the reason. For the others it records the last work and checks the volume limit. Safe
 * to run twice at once. `projectIds` restricts it to these projects.
 */
export async function checkSandboxes(
  ports: LifecyclePorts,
  projectIds?: readonly string[],
): Promise<{ checked: number; lost: number }> {
  const which = projectIds === undefined ? {} : { projectId: projectIds };
  const rows = await ports.store.sandboxes.list({ state: "running", ...which }, { by: "checkedAt" });
  return { checked: rows.length, lost: await countEach(rows, (row) => checkSandbox(ports, row)) };
}

/**
 * Looks for sandboxes of other projects that count as running or starting; returns whether one was
 * missing. One that does not answer is left to the next check.
 */
export async function forgetGone(ports: LifecyclePorts, exceptProjectId: string): Promise<boolean> {
  const rows = await ports.store.sandboxes.list({ state: ["running", "wanted"] });
  const others = rows.filter(({ projectId, state, reason }) => {
    return projectId !== exceptProjectId && (state === "running" || reason === null);
  });
  return (await countEach(others, (row) => forgetIfGone(ports, row))) > 0;
}

async function forgetIfGone(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  if (row.state === "wanted") {
    // A process that starts a sandbox holds its lock until it runs.
    const settled = await withSandboxAlone(ports, row.projectId, () => settleIntent(ports, row), { wait: false });
    return settled === true;
  }
  const found = await findWithin(ports, row).catch((error: unknown) => messageOf(error));
  return found === null && gone(ports, row);
}

/** Counts the rows for which it is true. */
async function countEach(rows: readonly SandboxRow[], look: (row: SandboxRow) => Promise<boolean>): Promise<number> {
  let count = 0;
  for (let at = 0; at < rows.length; at += atOnce) {
    const looks = rows.slice(at, at + atOnce).map(look);
    count += (await Promise.all(looks)).filter((isSo) => isSo).length;
  }
  return count;
}

type Seen = { readonly endpoint: SandboxEndpoint | null; readonly health: GuestHealth | null };

async function checkSandbox(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  const seen = await look(ports, row).catch((error: unknown) => messageOf(error));
  if (typeof seen === "string") return silent(ports, row, seen);
  const { endpoint, health } = seen;
  if (endpoint === null) return gone(ports, row);
  if (endpoint.bootId !== row.bootId) {
    await withSandboxAlone(ports, row.projectId, () => adopt(ports, row, endpoint), { wait: false });
    return false;
  }
  await remember(ports, row, present(health, "its health"));
  await watchVolume(ports, row, present(health, "its health"));
  return false;
}

/** Returns the sandbox's driver info and its guest's health. Fails when that takes too long. */
async function look(ports: LifecyclePorts, row: SandboxRow): Promise<Seen> {
  const endpoint = await findWithin(ports, row);
  if (endpoint === null) return { endpoint, health: null };
  return { endpoint, health: await within(endpoint.guest.health(AbortSignal.timeout(answerMs)), "its guest") };
}

const findWithin = (ports: LifecyclePorts, { driver, projectId }: SandboxRow): Promise<SandboxEndpoint | null> =>
  within(ports.driver(driver).find(projectId), "its driver");

async function within<Result>(asked: Promise<Result>, who: string): Promise<Result> {
  const over = new AbortController();
  const late = delay(answerMs, null, { signal: over.signal, ref: false }).then(() => {
    throw new Error(`${who} does not answer within ${answerMs / 1000} s`);
  });
  late.catch(() => undefined); // It answered in time.
  try {
    return await Promise.race([asked, late]);
  } finally {
    over.abort();
  }
}

/**
 * Another process may be restarting or stopping it without having recorded that yet; then leave it
 * alone.
 */
async function gone(ports: LifecyclePorts, row: SandboxRow): Promise<boolean> {
  const noted = await withSandboxAlone(
    ports,
    row.projectId,
    async () => {
      const found = await ports.driver(row.driver).find(row.projectId);
      return found === null && (await noteLoss(ports, row, await whyGone(ports, row)));
    },
    { wait: false },
  );
  return noted === true;
}

async function silent(ports: LifecyclePorts, row: SandboxRow, why: string): Promise<boolean> {
  ports.log.warn(`sandbox ${row.id} does not answer: ${why}`);
  const answeredAt = row.checkedAt ?? row.startedAt ?? row.createdAt;
  if (ports.clock.now().getTime() - answeredAt.getTime() < silentMs) return false;
  return noteLoss(ports, row, `does not answer: ${why}`);
}

/** The process that restarted it crashed before recording it. */
async function adopt(ports: LifecyclePorts, row: SandboxRow, endpoint: SandboxEndpoint): Promise<void> {
  if (await noteLoss(ports, row, "ended")) await recordBoot(ports, { ...row, state: "lost" }, endpoint);
}

async function remember(ports: LifecyclePorts, row: SandboxRow, { activeJobs, idleMs }: GuestHealth): Promise<void> {
  const now = ports.clock.now();
  const workedAt = new Date(now.getTime() - (activeJobs > 0 ? 0 : idleMs));
  const { id, bootId, usedAt } = row;
  await ports.store.sandboxes.update({ id, bootId, state: "running" }, { checkedAt: now });
  // Provided that nobody recorded a later use meanwhile.
  if (workedAt > usedAt)
    await ports.store.sandboxes.update({ id, bootId, state: "running", usedAt }, { usedAt: workedAt });
}
