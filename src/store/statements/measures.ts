import { and, count, eq, gt, isNotNull, isNull, ne, type SQL, sql } from "drizzle-orm";
import type { AnyPgColumn, PgTable } from "drizzle-orm/pg-core";
import { gauge, type Measure, type Sample } from "../../domain/measures.ts";
import {
  attemptOutcomeSchema,
  attemptStatusSchema,
  buildStatusSchema,
  gateNameSchema,
  taskStatusSchema,
  verdictSchema,
  waveStatusSchema,
} from "../../domain/status.ts";
import type { StoreSession } from "../connection/session.ts";
import {
  attempts,
  buildSpending,
  builds,
  gateRuns,
  modelCalls,
  outbox,
  previews,
  questions,
  sandboxes,
  tasks,
  waves,
} from "../schema.ts";

// MS1. Labels take their values from fixed lists, never from names that people or agents choose, so
// the number of series is bounded.
// MS2. Everything is read from the database, so a restart resets nothing, and every server of one
// database reports the same. What garbage collection removes is no longer counted, so these are
// gauges.

const recently = "1 hour";
const quantiles = [0.5, 0.9, 0.99];

/** Measures the builds of a database: what there is, how long it took lately, what waits. */
export async function readMeasures(session: StoreSession): Promise<Measure[]> {
  const parts = await Promise.all([
    readCounts(session),
    readDurations(session),
    readSpending(session),
    readQueues(session),
  ]);
  return parts.flat();
}

async function readCounts(session: StoreSession): Promise<Measure[]> {
  const state = (name: string, help: string, samples: readonly Sample[]): Measure => ({
    name,
    type: "gauge",
    help,
    samples,
  });
  const byStatus = (rows: Counted, values: readonly string[]) => complete(rows, "status", values);
  return [
    state(
      "wavesmith_builds",
      "Builds by status.",
      byStatus(await countBy(session, builds, builds.status), buildStatusSchema.options),
    ),
    state(
      "wavesmith_waves",
      "Waves by status.",
      byStatus(await countBy(session, waves, waves.status), waveStatusSchema.options),
    ),
    state(
      "wavesmith_tasks",
      "Tasks by status.",
      byStatus(await countBy(session, tasks, tasks.status), taskStatusSchema.options),
    ),
    state(
      "wavesmith_attempts",
      "Attempts by status.",
      byStatus(await countBy(session, attempts, attempts.status), attemptStatusSchema.options),
    ),
    state(
      "wavesmith_attempt_outcomes",
      "Settled attempts by outcome.",
      complete(await countBy(session, attempts, attempts.outcome), "outcome", attemptOutcomeSchema.options),
    ),
    state("wavesmith_gate_runs", "Finished gate runs by gate and verdict.", await countGates(session)),
    state("wavesmith_sandboxes", "Sandboxes by driver and state.", await countSandboxes(session)),
    state(
      "wavesmith_previews",
      "Previews by status.",
      labelled(await countBy(session, previews, previews.status), "status"),
    ),
  ];
}

type Counted = readonly { readonly key: string | null; readonly number: number }[];

const countBy = (session: StoreSession, table: PgTable, column: AnyPgColumn): Promise<Counted> =>
  session.once((db) =>
    db
      .select({ key: sql<string | null>`${column}`, number: count() })
      .from(table)
      .groupBy(column),
  );

const labelled = (rows: Counted, label: string): Sample[] =>
  rows.flatMap(({ key, number }) => (key === null ? [] : [{ labels: { [label]: key }, value: number }]));

/** Also shows what there is none of, because an absent series cannot be compared with a limit. */
const complete = (rows: Counted, label: string, values: readonly string[]): Sample[] =>
  values.map((value) => ({ labels: { [label]: value }, value: rows.find(({ key }) => key === value)?.number ?? 0 }));

async function countGates(session: StoreSession): Promise<Sample[]> {
  const rows = await session.once((db) =>
    db
      .select({ gate: gateRuns.gate, verdict: gateRuns.verdict, number: count() })
      .from(gateRuns)
      .where(isNotNull(gateRuns.verdict))
      .groupBy(gateRuns.gate, gateRuns.verdict),
  );
  return gateNameSchema.options.flatMap((gate) =>
    verdictSchema.options.map((verdict) => ({
      labels: { gate, verdict },
      value: rows.find((row) => row.gate === gate && row.verdict === verdict)?.number ?? 0,
    })),
  );
}

async function countSandboxes(session: StoreSession): Promise<Sample[]> {
  const { driver, state } = sandboxes;
  const rows = await session.once((db) =>
    db.select({ driver, state, number: count() }).from(sandboxes).where(ne(state, "removed")).groupBy(driver, state),
  );
  return rows.map(({ number, ...labels }) => ({ labels, value: number }));
}

async function readDurations(session: StoreSession): Promise<Measure[]> {
  const help = (what: string) => `Seconds that ${what} took, of those that ended in the last hour.`;
  const { startedAt, endedAt, kind } = attempts;
  return [
    await durations(
      session,
      { table: builds, from: builds.startedAt, to: builds.endedAt, by: null },
      {
        name: "wavesmith_build_duration_seconds",
        help: help("builds"),
      },
    ),
    await durations(
      session,
      { table: attempts, from: startedAt, to: endedAt, by: ["kind", kind] },
      {
        name: "wavesmith_attempt_duration_seconds",
        help: help("attempts"),
      },
    ),
    await durations(
      session,
      { table: gateRuns, from: gateRuns.createdAt, to: gateRuns.endedAt, by: ["gate", gateRuns.gate] },
      {
        name: "wavesmith_gate_duration_seconds",
        help: help("gate runs"),
      },
    ),
    await durations(
      session,
      { table: modelCalls, from: modelCalls.startedAt, to: modelCalls.endedAt, by: null },
      {
        name: "wavesmith_model_call_duration_seconds",
        help: help("model calls"),
      },
    ),
  ];
}

interface Timed {
  readonly table: PgTable;
  readonly from: AnyPgColumn;
  readonly to: AnyPgColumn;
  /** The label and its column. */
  readonly by: readonly [string, AnyPgColumn] | null;
}

async function durations(
  session: StoreSession,
  { table, from, to, by }: Timed,
  named: { name: string; help: string },
): Promise<Measure> {
  const key: SQL<string> = by === null ? sql<string>`''::text` : sql<string>`${by[1]}`;
  const seconds = sql`extract(epoch from ${to} - ${from})`;
  const list = sql.raw(`array[${quantiles.join(", ")}]`);
  const rows = await session.once((db) =>
    db
      .select({ key, seconds: sql<number[] | null>`percentile_cont(${list}) within group (order by ${seconds})` })
      .from(table)
      .where(and(isNotNull(from), gt(to, sql.raw(`now() - interval '${recently}'`))))
      .groupBy(key),
  );
  const samples = rows.flatMap((row) =>
    quantiles.map((quantile, at) => ({
      labels: { ...(by === null ? {} : { [by[0]]: row.key }), quantile: String(quantile) },
      value: Math.max(0, row.seconds?.[at] ?? 0),
    })),
  );
  return { ...named, type: "gauge", samples };
}

async function readSpending(session: StoreSession): Promise<Measure[]> {
  const { spentTokens, spentMicroUsd, reservedMicroUsd, unpricedCalls } = buildSpending;
  const sum = (column: AnyPgColumn) => sql<number>`coalesce(sum(${column}), 0)`.mapWith(Number);
  const [row] = await session.once((db) =>
    db
      .select({
        tokens: sum(spentTokens),
        usd: sum(spentMicroUsd),
        reserved: sum(reservedMicroUsd),
        unpriced: sum(unpricedCalls),
      })
      .from(buildSpending),
  );
  const { tokens = 0, usd = 0, reserved = 0, unpriced = 0 } = row ?? {};
  const [open] = await session.once((db) =>
    db.select({ number: count() }).from(modelCalls).where(eq(modelCalls.status, "open")),
  );
  return [
    gauge("wavesmith_model_spent_usd", "USD that all builds have spent on models.", usd / 1e6),
    gauge("wavesmith_model_reserved_usd", "USD that open model calls have reserved.", reserved / 1e6),
    gauge("wavesmith_model_tokens", "Tokens that all builds have used.", tokens),
    gauge("wavesmith_model_unpriced_calls", "Model calls whose price is unknown, in no sum of USD.", unpriced),
    gauge("wavesmith_model_calls_open", "Model calls that are open now.", open?.number ?? 0),
  ];
}

async function readQueues(session: StoreSession): Promise<Measure[]> {
  const ageSeconds = (moment: SQL) => sql<number>`coalesce(extract(epoch from now() - ${moment}), 0)`.mapWith(Number);
  const [unsent] = await session.once((db) =>
    db
      .select({ number: count(), age: ageSeconds(sql`min(${outbox.createdAt})`) })
      .from(outbox)
      .where(isNull(outbox.sentAt)),
  );
  const [asked] = await session.once((db) =>
    db
      .select({ number: count() })
      .from(questions)
      .where(and(isNull(questions.answer), isNull(questions.closedAt))),
  );
  return [
    gauge("wavesmith_outbox_unsent_events", "Events that are committed and not sent yet.", unsent?.number ?? 0),
    gauge("wavesmith_outbox_lag_seconds", "Age of the oldest event that is not sent yet.", unsent?.age ?? 0),
    gauge("wavesmith_questions_open", "Agents' questions that wait for a person.", asked?.number ?? 0),
  ];
}
