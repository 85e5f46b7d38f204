import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { planJsonSchema } from "../../src/plan/json-schema.ts";
import { contractExample } from "../support/contract-plan.ts";

const shipped: unknown = JSON.parse(readFileSync(new URL("../../schema/plan.schema.json", import.meta.url), "utf8"));
const schema = z.fromJSONSchema(planJsonSchema() as z.core.JSONSchema.JSONSchema);

describe("the JSON Schema of the plan file", () => {
  it("is the generated one: run `npm run schema` if this fails", () => {
    expect(shipped).toEqual(JSON.parse(JSON.stringify(planJsonSchema())));
  });

  it("accepts the contract's example, x- keys included", () => {
    expect(schema.safeParse(parse(contractExample)).error).toBeUndefined();
  });

  it.each([
    { name: "p" },
    { name: "p", tasks: [] },
    { name: "p", tasks: [{ id: "a", run: "x", timeout: "20" }] },
    { name: "p", tasks: [{ id: "A", run: "x" }] },
    { name: "p", tasks: [{ id: "a", run: "x", retires: 1 }] },
  ])("refuses %j", (plan) => {
    expect(schema.safeParse(plan).success).toBe(false);
  });
});
