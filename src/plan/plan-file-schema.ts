import { z } from "zod";
import { createPolicySchema, forgeNames, mergePolicySchema, requestScopeSchema } from "../domain/forge.ts";
import { modelTools } from "../domain/models.ts";
import { agentEfforts, imagePattern, maxImages } from "../domain/plan/plan.ts";
import { severitySchema } from "../domain/status.ts";
import { durationPattern, maxDurationMs, parseDuration } from "./durations.ts";

// The plan file as a person writes it. The schema checks sizes, types and spellings;
// check-references.ts, check-paths.ts and check-work.ts check ids, roles, paths and work across the
// plan. `x-*` keys have already been removed.

/**
 * The message zod reports for a wrong value: a fault code, a colon, a sentence. schema-faults.ts
 * splits it.
 */
const say = (message: string) => (): string => message;

/**
 * Makes a strict object schema. Its issue for an unknown key holds the known keys, so that
 * schema-faults.ts can suggest the nearest one; for another type of value it holds `otherwise`.
 */
function object<Shape extends z.ZodRawShape>(shape: Shape, otherwise?: string) {
  const known = Object.keys(shape).join(" ");
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys" ? known : issue.code === "invalid_type" ? otherwise : undefined,
  });
}

const text = z
  .string()
  .refine((value) => value.trim() !== "", { error: say("invalid: it is empty; write something or remove the key") });
const line = text.refine((value) => !/[\x00-\x1f\x7f]/.test(value), {
  error: say("invalid: it has a line break or another control character; write it on one line"),
});
const inRange = (ms: number | null): boolean => ms === null || (ms > 0 && ms <= maxDurationMs);
const duration = z
  .string({ error: say("bad-duration: a duration needs a unit, such as 90s, 20m, 1h30m or 500ms") })
  .regex(durationPattern, { error: say("bad-duration: write a duration such as 90s, 20m, 1h30m or 500ms") })
  .refine((value) => inRange(parseDuration(value)), {
    error: say("bad-duration: a duration is more than 0 and at most 24 days (576h)"),
  });
const count = z.int().max(1_000_000);

const taskIdPattern = /^[a-z0-9][a-z0-9-]*$/;
const taskId = z
  .string()
  .regex(taskIdPattern, { error: say("invalid: an id is made of a-z, 0-9 and -, and does not begin with -") })
  .max(100, { error: say("invalid: an id has at most 100 characters, because it becomes a branch and a folder") });
const roleName = z
  .string()
  .regex(/^[a-z][a-z0-9-]*$/, { error: say("invalid: a role is made of a-z, 0-9 and -, and begins with a letter") })
  .max(60, { error: say("invalid: a role's name has at most 60 characters") });
const variableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
  error: say("invalid: a variable's name is made of letters, digits and _, and does not begin with a digit"),
});

const env = z.record(
  variableName,
  z.union([z.string(), z.number(), z.boolean()]).describe("Numbers and booleans become text."),
);
const planFileName = text.describe("A file beside the plan, read when the plan is.");
const fileReference = object({ file: planFileName });
const globs = z.array(
  text.describe(
    "A glob within the project: `*`, `**`, `?`, `[a-z]`, `{one,other}`; a backslash makes the next character plain.",
  ),
);

const isWithinProject = (path: string): boolean => !path.startsWith("/") && !path.split("/").includes("..");
const skillFolder = line.refine(isWithinProject, {
  error: "a folder within the project, such as docs/skills/review",
});
const image = line.refine((path) => isWithinProject(path) && imagePattern.test(path), {
  error: say("invalid: write the path of a .png, .jpg, .gif or .webp file within the project, such as docs/page.png"),
});
const images = z
  .array(image)
  .max(maxImages, { error: say(`invalid: instructions have at most ${maxImages} images`) })
  .describe("Files of the repository, shown to the agent's model.");

const acceptance = object(
  {
    text: text.optional().describe("For agents and the critic to read; nothing runs it."),
    check: text.optional().describe("A shell command; exit 0: accepted."),
  },
  "wrong-type: write { check: … } for a command, or { text: … } for the critic",
);

const agent = object({
  runtime: z.enum(["command", "acp", "builtin"], {
    error: (issue) =>
      issue.input === undefined ? undefined : "unknown-runtime: the runtimes are command, acp and builtin",
  }),
  command: text.optional().describe("The shell command line of runtimes command and acp."),
  model: line.optional().describe("provider:model"),
  effort: z.enum(agentEfforts).optional().describe("How hard the model thinks; default: its own."),
  mcp: z
    .record(
      taskId,
      object({ command: text.describe("A shell command that starts the server on its stdin and stdout.") }),
    )
    .optional()
    .describe("MCP servers for runtimes acp and builtin, by name."),
  skills: z
    .array(skillFolder)
    .optional()
    .describe("Folders of the repository with a SKILL.md each, for runtimes acp and builtin."),
  prompt: z.union([text, fileReference]).optional().describe("Replaces the built-in prompt; see docs/agents.md."),
});

const task = object({
  id: taskId,
  title: line.optional().describe("Default: the id."),
  agent: roleName.optional().describe("The role. Optional with `run`: default."),
  dependsOn: z.array(z.string()).optional().describe("Ids of tasks that must be joined first."),
  instructions: z
    .union([text, object({ file: planFileName, images: images.optional() }), object({ text, images })])
    .optional()
    .describe("The prompt for the agent."),
  run: text.optional().describe("A shell script instead of an agent; exit 0: success."),
  writes: globs.optional().describe("The files it may write. Absent: unknown, so it never delays the task."),
  acceptance: z.array(acceptance).optional(),
  changes: z
    .enum(["required", "optional"])
    .optional()
    .describe("Default: required with an agent, optional with `run`."),
  mayChangeTests: z.boolean().optional(),
  model: line.optional().describe("Overrides the role's."),
  env: env.optional(),
  timeout: duration.optional().describe("Default: 20m."),
  retries: count.min(0).optional().describe("Default: 1."),
});

const commandGate = {
  command: text.optional().describe("A shell command; exit 0: passed."),
  timeout: duration.optional().describe("Default: 10m."),
  from: z.string().optional().describe("A task's id; the gate is not due until that task is joined."),
  when: z.enum(["each", "final"]).optional().describe("Default: each."),
  agent: roleName.optional().describe("The role whose agent adds checks once the gate's own checks have passed."),
};
const off = z.literal(false).describe("Switches the gate off.");

const gates = object({
  testing: z
    .union([
      object({
        ...commandGate,
        minTests: count.min(0).optional().describe("Default: 1."),
        report: z
          .enum(["junit", "tap", "node", "pytest"])
          .optional()
          .describe("Count tests only from a report at $WAVESMITH_REPORT; see docs/gates.md."),
      }),
      off,
    ])
    .optional(),
  critic: z
    .union([object({ block: severitySchema.optional().describe("Lowest severity that blocks. Default: high.") }), off])
    .optional(),
  integration: z.union([object(commandGate), off]).optional(),
  maxFixRounds: count.min(0).optional().describe("Per wave. Default: 2."),
});

const source = z.union([
  object({ path: text.describe("A folder, relative to the plan's.") }),
  object({ git: line.describe("A URL or a path."), ref: line.optional() }),
  z.literal("empty").describe("From nothing, also inside a git repository."),
]);
const host = z.string().regex(/^(?:\*\.)?[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?$/, {
  error: say("invalid: write a host name such as packages.example.com or *.example.com"),
});

export const planFileSchema = object({
  name: line.max(80, { error: say("invalid: a name has at most 80 characters") }).describe("Also the project's name."),
  description: z.string().optional(),
  limits: object({
    tasksPerAgentPerWave: count.min(1).optional().describe("Default: 3."),
    maxParallelTasks: count
      .min(1)
      .optional()
      .describe(
        "Across the build. Default: the number of processors; agents that wait for models (acp, builtin) 4 times that.",
      ),
    budget: object({
      usd: z.number().positive().optional(),
      tokens: z.int().positive().optional(),
      wallClock: duration.optional(),
    }).optional(),
  }).optional(),
  isolation: z.enum(["worktree", "shared"]).optional(),
  onTaskFailure: z.enum(["stop", "continue"]).optional(),
  approval: z.enum(["none", "wave", "final"]).optional(),
  agents: z.record(roleName, agent).optional().describe("Roles; `default` applies to all others."),
  context: z
    .array(z.union([fileReference, object({ text })]))
    .optional()
    .describe("Given to every task."),
  env: env.optional(),
  secrets: z.array(variableName).optional().describe("Names; values come from the environment."),
  services: z
    .record(
      z.string().regex(/^[a-z][a-z0-9-]*$/, {
        error: say("invalid: a service's name is made of a-z, 0-9 and -, and begins with a letter"),
      }),
      object({ command: text, ready: text.optional().describe("A shell command; exit 0: ready.") }),
    )
    .optional()
    .describe("Started per tree that needs them, each with its own port in $PORT_<NAME>."),
  setup: object({ run: text, cache: globs.optional() }).optional().describe("Runs in every fresh tree."),
  generated: z
    .array(object({ path: text, by: text }))
    .optional()
    .describe("Files that a command regenerates at a join instead of merging them."),
  source: source
    .optional()
    .describe("The initial tree. Absent: the git repository in which `wavesmith build` is run; outside one, empty."),
  tasks: z.array(task).min(1, { error: say("no-tasks: a plan needs at least one task") }),
  gates: gates.optional(),
  preview: object({
    command: text,
    healthPath: z
      .string()
      .regex(/^\//, { error: say("invalid: a path begins with /") })
      .optional()
      .describe("Default: /"),
  }).optional(),
  network: z.union([z.enum(["none", "allowlist", "open"]), object({ allow: z.array(host) })]).optional(),
  modelTools: z
    .array(z.enum(modelTools))
    .optional()
    .describe("Tools that model providers may use on their own, such as web_search. Default: nothing."),
  deliver: object({
    forge: z.enum(forgeNames).optional().describe("Where the work goes. Default: local, the repository on disk."),
    repo: z
      .string()
      .regex(/^[\w.-]+\/[\w.-]+$/, { error: say("invalid: write owner/name") })
      .optional(),
    base: line.optional().describe("The branch that requests are to be merged into. Default: the repository's own."),
    pullRequests: requestScopeSchema
      .optional()
      .describe("One growing request for the build (default), or one per wave."),
    merge: mergePolicySchema.optional().describe("When we merge by ourselves. Default: never."),
    create: createPolicySchema.optional().describe("Whether a missing repository is made. Default: private."),
    issue: z
      .number()
      .int()
      .positive()
      .optional()
      .describe(
        "The number of the issue that the build answers: its request closes it, and a comment there links to it.",
      ),
    request: z
      .number()
      .int()
      .positive()
      .optional()
      .describe("The number of the pull request into whose branch the work goes: a comment there links to it."),
  }).optional(),
  notify: z
    .array(
      z.string().refine(isNoticeAddress, {
        error: say("invalid: write a URL that begins with https:// or ntfy+https://, or mailto:NAME@HOST"),
      }),
    )
    .max(10, { error: say("too many: at most 10 addresses") })
    .optional()
    .describe("Who hears of approvals, blocked waves and ends of builds: webhooks, Slack, Discord, ntfy or mail."),
});

function isNoticeAddress(address: string): boolean {
  if (/^mailto:[^\s@,;:<>"?&%]+@[a-z0-9.-]+$/i.test(address)) return true;
  return /^(ntfy\+)?https?:\/\/\S+$/.test(address) && URL.canParse(address);
}

/** A plan file with correct types and spellings. */
export type PlanFile = z.output<typeof planFileSchema>;
export type TaskOfFile = PlanFile["tasks"][number];

export { line as shortText, object as strictMapping, say };
