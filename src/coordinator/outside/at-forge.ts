import type { Forge, ForgeRepository } from "../../forge/port.ts";
import type { Ports } from "../port.ts";

/** A repository that a build delivers to, with the forge that has it. */
export interface PlaceAtForge {
  readonly forge: Forge;
  readonly repository: ForgeRepository;
}

/** Finds a repository at GitHub, the only forge that sends webhooks; null if it is gone. */
export async function findAtForge({ forges }: Pick<Ports, "forges">, name: string): Promise<PlaceAtForge | null> {
  const forge = forges.forge("github");
  const repository = await forge.findRepository({ name, id: null });
  return repository === null ? null : { forge, repository };
}

/** Whether somebody at the forge may steer builds: whoever may push to the repository. */
export async function maySteer(ports: Pick<Ports, "forges">, name: string, login: string): Promise<boolean> {
  const place = await findAtForge(ports, name);
  return place !== null && (await place.forge.mayPush(place.repository, login));
}

interface Reply {
  readonly repository: string;
  readonly number: number;
  /** The same key is the same comment, however often it is written. */
  readonly key: string;
  readonly text: string;
}

/** Answers below an issue or a request. */
export async function replyAtForge(ports: Pick<Ports, "forges">, { repository, ...reply }: Reply): Promise<void> {
  const place = await findAtForge(ports, repository);
  if (place !== null) await place.forge.ensureComment({ repository: place.repository, ...reply });
}

interface Refused {
  readonly tenantId: string;
  readonly repository: string;
  readonly number: number;
  readonly by: string;
}

/**
 * Tells somebody without write access, once for each issue, that nothing follows. The first event
 * writes the comment, also when it is repeated, so that two at once do not write two.
 */
export async function refuseOutsider(
  ports: Pick<Ports, "forges" | "store" | "clock">,
  { tenantId, repository, number, by }: Refused,
  eventId: string,
): Promise<void> {
  const { webhookDeliveries } = ports.store;
  const id = `refused:${repository}#${number}/${by}`.toLowerCase();
  const own = { id, tenantId, event: "refused", answer: eventId, receivedAt: ports.clock.now() };
  const { answer } = (await webhookDeliveries.insertIfAbsent(own)) ?? (await webhookDeliveries.get({ id }));
  if (answer !== eventId) return;
  await replyAtForge(ports, {
    ...{ repository, number, key: `outsider/${by.toLowerCase()}` },
    text: `@${by} only people who may push to this repository can start or steer builds here, so nothing follows from what you asked.`,
  });
}
