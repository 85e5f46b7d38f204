import { z } from "zod";
import type { Client } from "../client/client.ts";

/** `reads`: it changes nothing. `adds`: what it does takes nothing away. `ends`: it may. */
type Effect = "reads" | "adds" | "ends";

/** One verb for other agents: a call of the API with its own description. */
export interface McpTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly effect: Effect;
  readonly input: z.ZodRawShape;
  /** Calls the API. Rejects with `ApiError`. */
  run(client: Client, args: unknown): Promise<unknown>;
}

interface ToolSpec<Shape extends z.ZodRawShape> {
  readonly title: string;
  readonly description: string;
  readonly effect: Effect;
  readonly input: Shape;
  run(client: Client, args: z.infer<z.ZodObject<Shape>>): Promise<unknown>;
}

/** Defines a tool; its arguments have passed the schema of its input. */
export function mcpTool<Shape extends z.ZodRawShape>(name: string, spec: ToolSpec<Shape>): McpTool {
  const schema = z.strictObject(spec.input);
  return { ...spec, name, run: (client, args) => spec.run(client, schema.parse(args) as z.infer<z.ZodObject<Shape>>) };
}
