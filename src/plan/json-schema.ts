import { z } from "zod";
import { planFileSchema } from "./plan-file-schema.ts";

/**
 * Builds the JSON Schema of a plan file for editors and other programs. `npm run schema` writes it
 * to `schema/plan.schema.json`.
 */
export function planJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(planFileSchema, {
    io: "input",
    target: "draft-2020-12",
    override: ({ jsonSchema }) => {
      // Objects with fixed keys ignore keys that begin with x-.
      if (jsonSchema.additionalProperties === false) jsonSchema.patternProperties = { "^x-": {} };
    },
  });
  return { ...schema, title: "Wavesmith plan" };
}
