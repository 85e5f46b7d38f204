import type { z } from "@hono/zod-openapi";
import { checkInput } from "../../domain/check-input.ts";

/** `checkInput` for a part of a request to the API. */
export const checked = <Schema extends z.ZodType>(schema: Schema, value: unknown, where: string): z.infer<Schema> =>
  checkInput(schema, value, { where, remedy: "/openapi.json shows what each route takes" });
