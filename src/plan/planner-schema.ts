import { z } from "zod";

// What a planner may say of a plan. What names the machine or costs money is the person's to say:
// agents and models, source, secrets, environment, network, limits, deliveries. Whatever is not in
// here is refused by name (made-plan.ts).

/** The roles a planner gives its tasks to. */
const plannerRoles = ["frontend", "backend", "database", "infrastructure", "testing", "integration"] as const;

const taskId = z.string().regex(/^[a-z0-9][a-z0-9-]*$/);
const command = z.string().min(1).describe("A shell command; exit 0: it holds.");
const gate = {
  command,
  from: taskId.optional().describe("The task from which on it is due; without it: from the first wave on."),
  when: z.enum(["each", "final"]).optional().describe("After each wave (default) or after the last alone."),
  timeout: z.string().optional().describe("Such as 5m. Default: 10m."),
};

const task = z.strictObject({
  id: taskId.describe("Short and telling: a-z, 0-9 and -."),
  title: z.string().min(1),
  agent: z.enum(plannerRoles),
  dependsOn: z.array(taskId).optional().describe("Ids of the tasks whose work it needs; no circles."),
  instructions: z.string().min(1).describe("All that somebody who knows nothing else needs to do it."),
  writes: z
    .array(z.string())
    .optional()
    .describe("Globs of the files it writes. Tasks whose globs can overlap are not done at the same time."),
  acceptance: z
    .array(
      z.strictObject({
        text: z.string().optional().describe("For whoever reviews it."),
        check: command.optional(),
      }),
    )
    .min(1)
    .describe("When it is done. At least one with a check wherever a command can tell."),
  changes: z.enum(["required", "optional"]).optional().describe("optional: it may find that nothing is to be changed."),
  mayChangeTests: z.boolean().optional().describe("It has to change or remove tests that are there already."),
  timeout: z.string().optional().describe("Such as 40m. Default: 20m."),
});

export const plannerPlanSchema = z.strictObject({
  name: z.string().min(1).max(80),
  description: z.string().min(1).describe("What is to be built, in one to three sentences; every agent reads it."),
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
      cache: z.array(z.string()).optional().describe("Files on whose content it depends."),
    })
    .optional()
    .describe("Runs in every fresh tree before anything else, such as npm ci; must work in every wave's tree."),
  services: z
    .record(z.string(), z.strictObject({ command: z.string(), ready: command.optional() }))
    .optional()
    .describe("Programs that tests need beside them; each has a port in $PORT_<NAME>."),
  generated: z
    .array(z.strictObject({ path: z.string(), by: z.string() }))
    .optional()
    .describe("Files that a command makes from others, such as lock files."),
  preview: z
    .strictObject({ command: z.string(), healthPath: z.string().optional() })
    .optional()
    .describe("Serves the finished application on $PORT."),
});

/** What `submit_result` takes from a planner. */
export function plannerJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(plannerPlanSchema, {
    io: "input",
    target: "draft-2020-12",
    override: ({ jsonSchema }) => {
      // Not every provider of models knows it, and the plan's own check sees to names.
      delete jsonSchema.propertyNames;
    },
  });
}
