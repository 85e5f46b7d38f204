import { z } from "zod";

// The part of a plan that a planner may write. The person sets everything that affects the machine
// or costs money: agents and models, source, secrets, environment, network, limits, deliveries.
// made-plan.ts refuses those keys by name.

/** The roles to which a planner gives tasks. */
const plannerRoles = ["frontend", "backend", "database", "infrastructure", "testing", "integration"] as const;

const taskId = z.string().regex(/^[a-z0-9][a-z0-9-]*$/);
const command = z.string().min(1).describe("A shell command; exit 0: passed.");
const gate = {
  command,
  from: taskId.optional().describe("The gate is due once this task is joined. Default: from the first wave."),
  when: z.enum(["each", "final"]).optional().describe("After each wave (default) or only after the last."),
  timeout: z.string().optional().describe("Such as 5m. Default: 10m."),
};

const task = z.strictObject({
  id: taskId.describe("Short and descriptive: a-z, 0-9 and -."),
  title: z.string().min(1),
  agent: z.enum(plannerRoles),
  dependsOn: z.array(taskId).optional().describe("Ids of the tasks whose work it needs; no cycles."),
  instructions: z.string().min(1).describe("Everything that an agent without other context needs to do it."),
  writes: z
    .array(z.string())
    .optional()
    .describe("Globs of the files it writes. Tasks whose globs can overlap are not done at the same time."),
  acceptance: z
    .array(
      z.strictObject({
        text: z.string().optional().describe("For the reviewer."),
        check: command.optional(),
      }),
    )
    .min(1)
    .describe("When the task is done. Include at least one check wherever a command can decide."),
  changes: z
    .enum(["required", "optional"])
    .optional()
    .describe("optional: the task may find that no change is needed."),
  mayChangeTests: z.boolean().optional().describe("It has to change or remove existing tests."),
  timeout: z.string().optional().describe("Such as 40m. Default: 20m."),
});

export const plannerPlanSchema = z.strictObject({
  name: z.string().min(1).max(80),
  description: z.string().min(1).describe("What to build, in one to three sentences; every agent reads it."),
  context: z
    .array(z.strictObject({ text: z.string().min(1) }))
    .optional()
    .describe("House rules that every agent reads: layout, names, interfaces between tasks."),
  tasks: z.array(task).min(1),
  gates: z
    .strictObject({
      testing: z.strictObject({ ...gate, minTests: z.int().min(1).optional() }).optional(),
      integration: z.strictObject(gate).optional(),
    })
    .optional(),
  setup: z
    .strictObject({
      run: command,
      cache: z.array(z.string()).optional().describe("Files whose content it depends on."),
    })
    .optional()
    .describe("Runs in every fresh tree before anything else, such as npm ci; must work in every wave's tree."),
  services: z
    .record(z.string(), z.strictObject({ command: z.string(), ready: command.optional() }))
    .optional()
    .describe("Programs that tests need running; each has a port in $PORT_<NAME>."),
  generated: z
    .array(z.strictObject({ path: z.string(), by: z.string() }))
    .optional()
    .describe("Files that a command generates from others, such as lock files."),
  preview: z
    .strictObject({ command: z.string(), healthPath: z.string().optional() })
    .optional()
    .describe("Serves the finished application on $PORT."),
});

/** Returns the JSON schema of `submit_result` for planners. */
export function plannerJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(plannerPlanSchema, {
    io: "input",
    target: "draft-2020-12",
    override: ({ jsonSchema }) => {
      // Not every model provider supports this keyword, and the plan's own check covers names.
      delete jsonSchema.propertyNames;
    },
  });
}
