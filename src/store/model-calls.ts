import { getTableColumns } from "drizzle-orm";
import type { ModelCallInsert, SpendingLimits } from "./port.ts";
import type { Queryable } from "./rows.ts";
import { modelCalls } from "./schema.ts";
import { columnOf, createValues, prepared, shapeOf } from "./statements.ts";

const shape = shapeOf(modelCalls);
const types = getTableColumns(modelCalls);

/**
 * W10 in one statement: it locks the build's row, and compares what that says then with the limits,
 * also when others have changed it while this one waited. False: nothing was changed.
 */
export async function reserveModelCall(db: Queryable, call: ModelCallInsert, limits: SpendingLimits): Promise<boolean> {
  const values = createValues();
  const count = (value: number | null): string => `${values.add(value)}::bigint`;
  const [tokens, microUsd] = [count(call.reservedTokens), count(call.reservedMicroUsd ?? 0)];
  const [mostTokens, mostMicroUsd] = [count(limits.tokens), count(limits.microUsd)];
  const keys = Object.keys(call) as (keyof ModelCallInsert)[];
  const given = keys.map(
    (key) => `${values.add(columnOf(shape, key).toDriver(call[key]))}::${types[key].getSQLType()}`,
  );
  const text = `with room as (
      update build_spending
      set reserved_tokens = reserved_tokens + ${tokens}, reserved_micro_usd = reserved_micro_usd + ${microUsd}
      where build_id = ${values.add(call.buildId)}
        and (${mostTokens} is null or spent_tokens + reserved_tokens + ${tokens} <= ${mostTokens})
        and (${mostMicroUsd} is null or spent_micro_usd + reserved_micro_usd + ${microUsd} <= ${mostMicroUsd})
      returning build_id)
    insert into ${shape.quoted} (${keys.map((key) => columnOf(shape, key).quoted).join(", ")})
    select ${given.join(", ")} from room`;
  const { rowCount } = await db.query({ ...prepared(text), values: values.list });
  return rowCount === 1;
}
