import type { NotificationRow } from "../../store/port.ts";
import { defaultTenant } from "../build/request/project.ts";
import type { Ports } from "../port.ts";

// ND1. A try is claimed by compare-and-set, which also sets when the next one is due. So two
// processes do not make the same try, and if one is killed in the middle, another makes the next
// try. A receiver may get an event twice, with the same id, but always gets it.

const seconds = 1_000;
const minutes = 60 * seconds;
/** The pause after each try. After the last one a person has to ask (`notifications replay`). */
const pausesMs = [10 * seconds, minutes, 5 * minutes, 30 * minutes, 120 * minutes, 480 * minutes] as const;
export const mostTries = pausesMs.length + 1;
const atOnce = 20;

type DeliveryPorts = Pick<Ports, "store" | "notifier" | "clock" | "log">;

/**
 * Tries to send the notices of these projects that are due. Returns how many were tried. Safe to
 * run in several processes at once.
 */
export async function deliverDueNotices(
  ports: DeliveryPorts,
  projectIds: "all" | ReadonlySet<string>,
): Promise<number> {
  const now = ports.clock.now();
  const where = projectIds === "all" ? {} : { projectId: [...projectIds] };
  const waiting = await ports.store.notifications.list(
    { ...where, status: "waiting" },
    { by: "nextAt", limit: atOnce },
  );
  const due = waiting.filter(({ nextAt }) => nextAt <= now);
  await Promise.all(due.map((notice) => deliver(ports, notice)));
  return due.length;
}

async function deliver(ports: DeliveryPorts, { id, tries }: NotificationRow): Promise<void> {
  const now = ports.clock.now().getTime();
  const pauseMs = pausesMs[tries] ?? minutes;
  const [claimed] = await ports.store.notifications.update(
    { id, tries, status: "waiting" },
    { tries: tries + 1, nextAt: new Date(now + pauseMs) },
  );
  if (claimed === undefined) return;
  const { event, createdAt: at, data, title, text, address } = claimed;
  const { name } = await ports.store.tenants.get({ id: claimed.tenantId });
  const sender = { name, isDefault: name === defaultTenant };
  const result = await ports.notifier.send(address, { id, event, at, data, title, text }, sender);
  const mine = { id, tries: claimed.tries, status: "waiting" } as const;
  if (result.sent) {
    await ports.store.notifications.update(mine, { status: "sent", sentAt: ports.clock.now(), problem: null });
    return;
  }
  const { problem, isFinal, retryAfterMs } = result;
  const isDead = isFinal || claimed.tries >= mostTries;
  const nextAt = new Date(now + Math.max(pauseMs, retryAfterMs ?? 0));
  await ports.store.notifications.update(mine, { problem, ...(isDead ? { status: "dead" } : { nextAt }) });
  const what = `${addressShown(address)} did not receive "${title}": ${problem}`;
  if (isDead)
    ports.log.warn(`${what}; it is not tried again: fix the cause, then: wavesmith notifications replay ${id}`);
  // Warn only about the first failure; the list shows the later ones.
  else if (claimed.tries === 1) ports.log.warn(`${what}; it is tried again while something builds here`);
}

/** Returns an address of `notify` without what may be secret: an URL's path and credentials. */
export const addressShown = (address: string): string => {
  const { protocol, host, pathname } = new URL(address);
  if (protocol === "mailto:") return pathname;
  return `${protocol}//${host}/…`;
};

/** Makes a notice due again or, if the id is null, all that were not sent. Returns how many. */
export async function retryNotices(
  { store, clock }: Pick<Ports, "store" | "clock">,
  id: string | null,
): Promise<number> {
  const again = { status: "waiting", tries: 0, nextAt: clock.now(), problem: null } as const;
  return (await store.notifications.update(id === null ? { status: ["waiting", "dead"] } : { id }, again)).length;
}
