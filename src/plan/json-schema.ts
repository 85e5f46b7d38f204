import { z } from "zod";
import { planFileSchema } from "./plan-file-schema.ts";

/**
 * The JSON Schema of a plan file, for editors and other programs. `schema/plan.schema.json` is
 * this, written by `npm run schema`.
 */
export function planJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(planFileSchema, {
    io: "input",
    target: "draft-2020-12",
    override: ({ jsonSchema }) => {
      // Keys that begin with x- are ignored wherever keys are fixed.
      if (jsonSchema.additionalProperties === false) jsonSchema.patternProperties = { "^x-": {} };
    },
  });
  return { ...schema, title: "Wavesmith plan" };
}
