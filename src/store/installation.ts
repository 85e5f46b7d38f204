import { asc, eq, sql } from "drizzle-orm";
import { WavesmithError } from "../domain/errors.ts";
import { type IdSource, randomIds } from "../domain/ids.ts";
import type { StoreSession } from "./connection/session.ts";
import type { Store } from "./port.ts";
import { installations } from "./schema.ts";

type InstallationRow = typeof installations.$inferSelect;

/** Finds the row of this installation: the oldest, since two processes may make one at once. */
export async function findInstallation(session: StoreSession): Promise<InstallationRow | null> {
  const [row] = await session.once((db) =>
    db.select().from(installations).orderBy(asc(installations.createdAt), asc(installations.id)).limit(1),
  );
  return row ?? null;
}

/** Returns the row of this installation, made at first use. */
export async function ensureInstallation(session: StoreSession, ids: IdSource = randomIds): Promise<InstallationRow> {
  const found = await findInstallation(session);
  if (found !== null) return found;
  await session.once((db) => db.insert(installations).values({ id: ids("installation") }));
  return ensureInstallation(session, ids);
}

export async function updateInstallation(
  session: StoreSession,
  id: string,
  patch: Partial<typeof installations.$inferInsert>,
): Promise<void> {
  await session.once((db) => db.update(installations).set(patch).where(eq(installations.id, id)));
}

export function createInstallation(
  session: StoreSession,
  ids: IdSource,
): Pick<Store, "installationId" | "modelSecret"> {
  return {
    installationId: async () => (await ensureInstallation(session, ids)).id,
    async modelSecret(fresh) {
      const { id } = await ensureInstallation(session, ids);
      const modelSecret = sql<string>`coalesce(${installations.modelSecret}, ${fresh})`;
      const [row] = await session.once((db) =>
        db.update(installations).set({ modelSecret }).where(eq(installations.id, id)).returning({ modelSecret }),
      );
      if (row === undefined) throw new WavesmithError("internal", `installation ${id} has gone`);
      return row.modelSecret;
    },
  };
}
