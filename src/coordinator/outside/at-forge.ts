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

/** Whether this account may steer builds, which everyone who may push to the repository can do. */
export async function maySteer(ports: Pick<Ports, "forges">, name: string, login: string): Promise<boolean> {
  const place = await findAtForge(ports, name);
  return place !== null && (await place.forge.mayPush(place.repository, login));
}

interface Reply {
  readonly repository: string;
  readonly number: number;
  /** Identifies the comment: writing it again with the same key updates it. */
  readonly key: string;
  readonly text: string;
}

/**
 * Answers below an issue or a request. One process at a time writes a comment, so that two never
 * look for it and then both make it.
 */
export async function replyAtForge(
  ports: Pick<Ports, "forges" | "store">,
  { repository, ...reply }: Reply,
): Promise<void> {
  const place = await findAtForge(ports, repository);
  if (place === null) return;
  const write = () => place.forge.ensureComment({ repository: place.repository, ...reply });
  await ports.store.alone(`comment/${place.repository.id}#${reply.number}/${reply.key}`, write, { wait: true });
}

interface Refused {
  readonly tenantId: string;
  readonly repository: string;
  readonly number: number;
  readonly by: string;
}

/**
 * Tells a person without write access, once per issue, that we do nothing. Only the first event
 * writes the comment, even when that event is repeated, so that two events at once do not write
 * two.
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
    text: `@${by} only people who may push to this repository can start or steer builds here, so Wavesmith did nothing.`,
  });
}
