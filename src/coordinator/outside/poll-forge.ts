import { messageOf } from "../../domain/errors.ts";
import type { Forge, ForgePlace, News } from "../../forge/port.ts";
import { ForgeError } from "../../forge/port.ts";
import type { PullRequestRow } from "../../store/port.ts";
import type { ReadDelivery } from "../../webhooks/port.ts";
import { defaultTenant, tenantIdFor } from "../build/request/project.ts";
import type { Ports } from "../port.ts";
import { takeDelivery } from "./take-delivery.ts";

// PO1. News become the same events as webhooks, with the same ids (TD2), so what comes both ways is
// handled once. A repository's place in its news is stored after them: a process that is killed in
// between reads them again, which changes nothing.
// PO2. What happened before we first looked is history, and starts nothing.

type ReadPayload = (event: string, payload: unknown) => ReadDelivery;

/** How far we have read one list of news. */
interface Cursor {
  readonly etag: string | null;
  /** News before this moment are history (PO2). */
  readonly since: number;
  readonly nextAt: number;
}

const mostRequests = 100;
/** A request that is younger than this was made just before our first look. */
const youngMs = 60 * 60_000;

/**
 * Reads the news of every repository that we know. Returns when to look again at the earliest;
 * null: at the usual time.
 */
export async function pollForge(ports: Ports, read: ReadPayload): Promise<Date | null> {
  const forge = ports.forges.forge("github");
  const open = await ports.store.pullRequests.list(
    { forge: "github", status: ["waiting", "open", "blocked"] },
    { by: "createdAt", descending: true, limit: mostRequests },
  );
  const named = ports.forgeRepositories.filter((name) => !name.endsWith("/*"));
  try {
    for (const name of new Set([...open.map(({ repo }) => repo), ...named]))
      await readRepository(ports, { forge, read, name, requests: open.filter(({ repo }) => repo === name) });
    return null;
  } catch (error) {
    if (!(error instanceof ForgeError) || error.until === null) throw error;
    ports.log.warn(`GitHub is not polled until ${error.until.toISOString()}: ${error.message}`);
    return error.until;
  }
}

interface Reading {
  readonly forge: Forge;
  readonly read: ReadPayload;
  readonly name: string;
  readonly requests: readonly PullRequestRow[];
}

async function readRepository(ports: Ports, reading: Reading): Promise<void> {
  const { forge, name, requests } = reading;
  try {
    const id = requests.find(({ repoId }) => repoId !== null)?.repoId ?? name;
    const place = forge.locateRepository({ name, id });
    await readEventsOf(ports, reading, place);
    for (const { pushedSha: sha } of requests) if (sha !== null) await readChecksOf(ports, reading, { place, sha });
  } catch (error) {
    if (!(error instanceof ForgeError) || error.until !== null) throw error;
    // One repository that is gone, or that we may not read, must not hide the others.
    ports.log.warn(`the events of ${name} at GitHub cannot be read: ${error.message}`);
  }
}

async function readEventsOf(ports: Ports, { forge, read, name, requests }: Reading, place: ForgePlace): Promise<void> {
  const now = ports.clock.now().getTime();
  // Under its id, its place stays the same when it is renamed.
  const [key, former] = [`poll:github:${place.id}`, `poll:github:${name}`];
  const newest = requests[0]?.createdAt.getTime() ?? 0;
  const fresh = { etag: null, since: now - newest < youngMs ? newest : now, nextAt: 0 };
  const cursor = (await findCursor(ports, key)) ?? (await findCursor(ports, former)) ?? fresh;
  if (cursor.nextAt > now) return;
  const news = await forge.readEvents(place, cursor.etag);
  if (news !== null) await takeNews(ports, read, { news, since: cursor.since });
  const { etag, pauseMs } = news ?? { etag: cursor.etag, pauseMs: 0 };
  await storeCursor(ports, key, { ...cursor, etag, nextAt: now + pauseMs });
}

async function readChecksOf(
  ports: Ports,
  { forge, read, name }: Reading,
  { place, sha }: { place: ForgePlace; sha: string },
): Promise<void> {
  const keys = ["runs", "statuses"].map((kind) => `poll:github:${name}:${sha}:${kind}`);
  const cursors = await Promise.all(keys.map((key) => findCursor(ports, key)));
  const etags = cursors.map((cursor) => cursor?.etag ?? null);
  const all = await forge.readCheckNews(place, { sha, etags });
  for (const [index, key] of keys.entries()) {
    const news = all[index] ?? null;
    if (news === null) continue;
    await takeNews(ports, read, { news, since: 0 });
    await storeCursor(ports, key, { etag: news.etag, since: 0, nextAt: 0 });
  }
}

async function takeNews(ports: Ports, read: ReadPayload, { news, since }: { news: News; since: number }) {
  const tenantId = tenantIdFor(defaultTenant);
  await ports.store.tenants.insertIfAbsent({ id: tenantId, name: defaultTenant });
  // GitHub's times have no fractions of a second.
  const fresh = news.items.filter(({ at }) => since === 0 || at.getTime() >= since - 1_000);
  for (const { id, event, payload } of fresh) {
    const reading = readItem(ports, read, event, payload);
    if (reading !== null && reading.facts.length > 0)
      await takeDelivery(ports, { id: `github-news:${id}`, tenantId, event, reading });
  }
}

/** Reads one item; one that GitHub writes in another way must not hide the others. */
function readItem(
  { log }: Pick<Ports, "log">,
  read: ReadPayload,
  event: string,
  payload: unknown,
): ReadDelivery | null {
  try {
    return read(event, payload);
  } catch (error) {
    log.warn(`one of GitHub's events is left out: ${messageOf(error)}`);
    return null;
  }
}

async function findCursor({ store }: Pick<Ports, "store">, id: string): Promise<Cursor | null> {
  const row = await store.webhookDeliveries.find({ id });
  return row === null ? null : (JSON.parse(row.answer) as Cursor);
}

async function storeCursor({ store, clock }: Pick<Ports, "store" | "clock">, id: string, cursor: Cursor) {
  const row = { answer: JSON.stringify(cursor), receivedAt: clock.now() };
  const [updated] = await store.webhookDeliveries.update({ id }, row);
  if (updated === undefined)
    await store.webhookDeliveries.insertIfAbsent({ id, tenantId: tenantIdFor(defaultTenant), event: "poll", ...row });
}
