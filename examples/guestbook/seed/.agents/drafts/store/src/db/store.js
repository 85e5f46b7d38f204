// The entries of the guestbook, in memory for reading and in the log for keeping.
//
// S1. A change is in the log before it is visible: what a reader has seen survives a crash.
// S2. One change at a time, compaction included: it must not drop what is being added meanwhile.
// S3. Delete keys are kept hashed and never leave the store.
import { createHash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { currentFormat, migrate } from "./migrations.js";

const compactAbove = 500; // records of history that are not worth a rewrite

/** `now` and `newId` are handed in by tests. */
export async function createStore(log, { now = () => new Date(), newId = randomUUID } = {}) {
  const { records, changed } = migrate(log.records);
  if (changed) await log.replaceAll(records);
  const entries = new Map(); // by id, oldest first
  for (const record of records) apply(entries, record);
  let recordCount = records.length;

  let last = Promise.resolve();
  const inTurn = (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };

  const write = (record) =>
    inTurn(async () => {
      await log.append(record);
      apply(entries, record);
      recordCount += 1;
      if (recordCount - entries.size > Math.max(compactAbove, entries.size)) await compact();
    });

  async function compact() {
    const kept = [{ type: "format", format: currentFormat }];
    for (const entry of entries.values()) kept.push({ type: "added", entry });
    recordCount = kept.length;
    await log.replaceAll(kept);
  }

  return {
    /** One page, newest first. A page beyond the last is the last. */
    list({ page = 1, perPage = 10 } = {}) {
      const pages = Math.max(1, Math.ceil(entries.size / perPage));
      const current = Math.min(Math.max(1, page), pages);
      const newestFirst = [...entries.values()].reverse();
      const shown = newestFirst.slice((current - 1) * perPage, current * perPage);
      return { entries: shown.map(visible), page: current, pages, total: entries.size };
    },
    /** Adds a checked entry. The delete key is told this one time only. */
    async add({ author, place, message, colour }) {
      const deleteKey = randomBytes(18).toString("base64url");
      const entry = { id: newId(), author, place, message, colour, hearts: 0, createdAt: now().toISOString() };
      await write({ type: "added", entry: { ...entry, keyHash: hash(deleteKey) } });
      return { entry, deleteKey };
    },
    /** "removed", "absent", or "forbidden" when the key is not this entry's. */
    async remove(id, deleteKey) {
      const entry = entries.get(id);
      if (!entry) return "absent";
      if (!timingSafeEqual(Buffer.from(entry.keyHash, "hex"), Buffer.from(hash(deleteKey ?? ""), "hex"))) return "forbidden";
      await write({ type: "removed", id });
      return "removed";
    },
    /** Adds a heart and returns how many there are now; null when there is no such entry. */
    async heart(id) {
      if (!entries.has(id)) return null;
      await write({ type: "heart", id });
      return entries.get(id)?.hearts ?? null;
    },
    compact: () => inTurn(compact),
    close: () => log.close(),
  };
}

function apply(entries, record) {
  if (record.type === "added") entries.set(record.entry.id, { ...record.entry });
  if (record.type === "removed") entries.delete(record.id);
  if (record.type === "heart" && entries.has(record.id)) entries.get(record.id).hearts += 1;
}

const hash = (key) => createHash("sha256").update(key).digest("hex");

function visible({ keyHash: _, ...entry }) {
  return { ...entry };
}
