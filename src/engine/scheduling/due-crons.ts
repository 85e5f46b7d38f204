import type { EngineContext } from "../context.ts";
import { type EngineQueryable, inTransaction } from "../database.ts";
import type { FunctionSpec } from "../registration/registry.ts";
import { runStart } from "../runs/dispatch.ts";
import { insertEvents, type StoredEvent } from "../runs/event-store.ts";

// CR1. Each tick fires once, whichever process fires it: one transaction takes its row, and the id
// of its event names the tick.
// CR2. After a pause only the oldest missed tick fires; the next one is in the future.

interface CronTrigger {
  readonly spec: FunctionSpec;
  readonly expression: string;
  readonly nextTick: (afterMs: number) => number;
}

const triggersOf = (context: EngineContext): CronTrigger[] =>
  [...context.specs().values()].flatMap((spec) => spec.crons.map((cron) => ({ spec, ...cron })));

/** Stores the next tick of each cron that has none yet. */
export async function registerCrons(context: EngineContext): Promise<void> {
  const triggers = triggersOf(context);
  if (triggers.length === 0) return;
  await context.database.query(
    `INSERT INTO engine.crons (function_id, expression, due_at)
     SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[]) ON CONFLICT DO NOTHING`,
    [
      triggers.map((trigger) => trigger.spec.id),
      triggers.map((trigger) => trigger.expression),
      triggers.map((trigger) => new Date(trigger.nextTick(context.nowMs()))),
    ],
  );
}

/** Starts the runs of due ticks. */
export async function fireCrons(context: EngineContext): Promise<void> {
  const triggers = triggersOf(context);
  if (triggers.length === 0) return;
  const due = "FROM engine.crons WHERE due_at <= $1 AND function_id = ANY($2::text[])";
  const values = [new Date(context.nowMs()), triggers.map((trigger) => trigger.spec.id)];
  if ((await context.database.query(`SELECT 1 ${due} LIMIT 1`, values)).rows.length === 0) return;
  await inTransaction(context.database, "BEGIN", async (on) => {
    const { rows } = await on.query(`SELECT function_id, expression, due_at ${due} FOR UPDATE SKIP LOCKED`, values);
    for (const row of rows) {
      const trigger = triggers.find(
        ({ spec, expression }) => spec.id === row.function_id && expression === row.expression,
      );
      if (trigger !== undefined) await fire(context, on, trigger, row.due_at as Date);
    }
    await context.crash("engine.cron.before-commit");
  });
  await context.crash("engine.cron.after-commit");
}

async function fire(context: EngineContext, on: EngineQueryable, trigger: CronTrigger, tick: Date): Promise<void> {
  const { spec, expression } = trigger;
  const event: StoredEvent = {
    name: "inngest/scheduled.timer",
    id: `${spec.id} ${expression} ${tick.toISOString()}`,
    ts: tick.getTime(),
    data: { cron: expression },
  };
  await insertEvents(on, [event], [runStart(spec, event, null)], context.nowMs());
  await on.query("UPDATE engine.crons SET due_at = $3 WHERE function_id = $1 AND expression = $2", [
    spec.id,
    expression,
    new Date(trigger.nextTick(context.nowMs())),
  ]);
}
