import { and, eq, getTableColumns, gte, isNull, or, type SQL, sql } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { WavesmithError } from "../../domain/errors.ts";
import type { Spending, SpendingSum } from "../../domain/models.ts";
import type { StoreSession } from "../connection/session.ts";
import type { BuildSpendingRow, ModelCallInsert, SpendingLimits, SpendingPart } from "../port.ts";
import { columnValue } from "../rows/columns.ts";
import type { OwnTables } from "../rows/tables.ts";
import { attempts, buildSpending, builds, modelCalls } from "../schema.ts";

/** The tokens of a call; where they are unknown, what was reserved for it. */
const counted = sql`case when ${modelCalls.inputTokens} is not null
    then ${modelCalls.inputTokens} + coalesce(${modelCalls.outputTokens}, 0)
    when ${modelCalls.status} in ('done', 'cut') then ${modelCalls.reservedTokens} else 0 end`;

/** Adds up the calls of each attempt and gate run. A build may make tens of thousands. */
export async function modelSpending(session: StoreSession, buildId: string): Promise<ReadonlyMap<string, Spending>> {
  const { status, inputTokens, outputTokens, cachedTokens, microUsd, estimated } = modelCalls;
  const rows = await session.run(
    "model spending",
    (db) =>
      db
        .select({
          ownerId: modelCalls.ownerId,
          calls: number(sql`count(*)`),
          openCalls: number(sql`count(*) filter (where ${status} = 'open')`),
          waitingCalls: number(sql`count(*) filter (where ${status} = 'waiting')`),
          estimatedCalls: number(sql`count(*) filter (where ${estimated})`),
          tokens: number(sql`sum(${counted})`),
          inputTokens: total(inputTokens),
          cachedTokens: total(cachedTokens),
          outputTokens: total(outputTokens),
          microUsd: total(microUsd),
          unpricedCalls: number(sql`count(*) filter (where ${counted} > 0 and ${microUsd} is null)`),
        })
        .from(modelCalls)
        .where(eq(modelCalls.buildId, sql.placeholder("buildId")))
        .groupBy(modelCalls.ownerId),
    { buildId },
  );
  return new Map(rows.map(({ ownerId, ...spending }) => [ownerId, spending]));
}

/** Adds up a project's calls by day, role and model. */
export async function projectSpending(session: StoreSession, projectId: string, since: Date): Promise<SpendingPart[]> {
  const day = sql<string>`to_char(${modelCalls.startedAt} at time zone 'UTC', 'YYYY-MM-DD')`;
  const role = sql<string>`coalesce(${attempts.role}, 'gates')`;
  return session.run(
    "project spending",
    (db) =>
      db
        .select({
          day: day.as("day"),
          role: role.as("role"),
          model: modelCalls.model,
          calls: number(sql`count(*)`),
          tokens: number(sql`sum(${counted})`),
          microUsd: total(modelCalls.microUsd),
          unpricedCalls: number(sql`count(*) filter (where ${counted} > 0 and ${modelCalls.microUsd} is null)`),
        })
        .from(modelCalls)
        .innerJoin(builds, eq(builds.id, modelCalls.buildId))
        .leftJoin(attempts, eq(attempts.id, modelCalls.ownerId))
        .where(
          and(eq(builds.projectId, sql.placeholder("projectId")), gte(modelCalls.startedAt, sql.placeholder("since"))),
        )
        .groupBy(sql`1, 2, 3`)
        .orderBy(sql`1, 2, 3`),
    { projectId, since },
  );
}

/** Returns what all builds of a tenant have spent on models. */
export async function tenantSpending(session: StoreSession, tenantId: string): Promise<SpendingSum> {
  const [sum = { tokens: 0, microUsd: 0, unpricedCalls: 0 }] = await session.run(
    "tenant spending",
    (db) =>
      db
        .select({
          tokens: total(buildSpending.spentTokens),
          microUsd: total(buildSpending.spentMicroUsd),
          unpricedCalls: total(buildSpending.unpricedCalls),
        })
        .from(buildSpending)
        .innerJoin(builds, eq(builds.id, buildSpending.buildId))
        .where(eq(builds.tenantId, sql.placeholder("tenantId"))),
    { tenantId },
  );
  return sum;
}

/** Locks what a build has spent; its first call makes the row. */
export async function lockSpending({ buildSpending: rows }: OwnTables, buildId: string): Promise<BuildSpendingRow> {
  try {
    return await rows.lock({ buildId });
  } catch (error) {
    if (!(error instanceof WavesmithError) || error.code !== "not-found") throw error;
    await rows.insertIfAbsent({ buildId });
    return rows.lock({ buildId });
  }
}

/**
 * W10 in one statement: it locks the build's row, and compares its sums then with the limits, also
 * when others changed them while this statement waited. False: nothing was changed.
 */
export async function reserveModelCall(
  session: StoreSession,
  call: ModelCallInsert,
  limits: SpendingLimits,
): Promise<boolean> {
  const { reservedTokens, spentTokens, reservedMicroUsd, spentMicroUsd } = buildSpending;
  const tokens = sql`${sql.placeholder("reservedTokens")}::bigint`;
  const microUsd = sql`coalesce(${sql.placeholder("reservedMicroUsd")}::bigint, 0)`;
  const mostTokens = sql`${sql.placeholder("mostTokens")}::bigint`;
  const mostMicroUsd = sql`${sql.placeholder("mostMicroUsd")}::bigint`;
  const values = Object.entries(getTableColumns(modelCalls)).map(
    ([key, column]) => sql`${columnValue(column, key)}::${sql.raw(column.getSQLType())}`,
  );
  const answer = await session.run(
    "reserve model call",
    (db) => {
      const room = db.$with("room").as(
        db
          .update(buildSpending)
          .set({
            reservedTokens: sql`${reservedTokens} + ${tokens}`,
            reservedMicroUsd: sql`${reservedMicroUsd} + ${microUsd}`,
          })
          .where(
            and(
              eq(buildSpending.buildId, sql.placeholder("buildId")),
              or(isNull(mostTokens), sql`${spentTokens} + ${reservedTokens} + ${tokens} <= ${mostTokens}`),
              or(isNull(mostMicroUsd), sql`${spentMicroUsd} + ${reservedMicroUsd} + ${microUsd} <= ${mostMicroUsd}`),
            ),
          )
          .returning({ buildId: buildSpending.buildId }),
      );
      return db
        .with(room)
        .insert(modelCalls)
        .select(sql`select ${sql.join(values, sql`, `)} from ${room}`);
    },
    { ...unsettled, ...call, mostTokens: limits.tokens, mostMicroUsd: limits.microUsd },
  );
  return answer.rowCount === 1;
}

/** The columns of a call that are set when it is settled, and the tenant, which a trigger sets. */
const unsettled = {
  tenantId: "",
  inputTokens: null,
  cachedTokens: null,
  outputTokens: null,
  microUsd: null,
  estimated: false,
  httpStatus: null,
  error: null,
  ending: null,
  endedAt: null,
};

const number = (expression: SQL): SQL<number> => expression.mapWith(Number) as SQL<number>;
const total = (column: PgColumn): SQL<number> => number(sql`coalesce(sum(${column}), 0)`);
