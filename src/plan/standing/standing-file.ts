import { z } from "zod";
import { ownBranches } from "../../domain/forge.ts";
import type { PlanFault } from "../../domain/plan/plan.ts";
import type { ScheduleTimes } from "../../domain/schedule.ts";
import type { Environment } from "../checks/check-environment.ts";
import { cleanValue } from "../clean-value.ts";
import { createFaultSink, type FaultSink } from "../faults/fault-sink.ts";
import { reportSchemaIssues } from "../faults/schema-faults.ts";
import { parsePlanPart } from "../parse-plan.ts";
import { say, shortText, strictMapping } from "../plan-file-schema.ts";
import { readPlanText } from "../plan-text.ts";
import { isCron } from "./cron-times.ts";

// `wavesmith.yaml` says when to start builds in a repository, and what to build.

const relativePath = shortText.refine((path) => !path.startsWith("/") && !path.split("/").includes(".."), {
  error: say("escaping-file: write a path inside the repository"),
});

const schedule = strictMapping({
  name: shortText.max(80).optional().describe("What the schedule is called; by default its cron."),
  cron: shortText.max(100).describe("Minute, hour, day of month, month and day of week."),
  timezone: shortText
    .max(60)
    .default("UTC")
    .refine(isTimezone, { error: say("invalid: write the name of a time zone, such as Europe/Paris") })
    .describe("The time zone of the cron, such as Europe/Paris. Default: UTC."),
}).refine(({ cron, timezone }) => !isTimezone(timezone) || isCron({ cron, timezone }), {
  path: ["cron"],
  error: say("invalid: write five fields that some date matches, such as 0 6 * * 1-5"),
});

const branchGlob = shortText.max(200).refine((name) => !name.startsWith(ownBranches), {
  error: say("invalid: branches below wavesmith/ are our own; what we push starts no build"),
});

const standingFileSchema = strictMapping({
  plan: z
    .union([relativePath, z.record(z.string(), z.unknown())])
    .optional()
    .describe("The plan to build: the path of a plan file in this repository, or the plan itself."),
  brief: z
    .string()
    .max(100_000)
    .refine((text) => text.trim() !== "", { error: say("invalid: it is empty; say what to build") })
    .optional()
    .describe("Standing instructions, from which a planner makes the plan of each build."),
  yes: z.boolean().optional().describe("With a brief: run the drafted plan without asking a person."),
  budget: z.unknown().optional().describe("With a brief: the budget of each build, as limits.budget in a plan."),
  on: strictMapping({
    push: strictMapping({
      branches: z.array(branchGlob).min(1).max(20).describe("The branches, such as main or release/*."),
    })
      .optional()
      .describe("Starts a build of each commit that people push to these branches of the repository at the forge."),
    label: shortText
      .max(50)
      .optional()
      .describe("A label: putting it on an issue or a pull request of the repository starts a build."),
    schedule: z.array(schedule).max(20).optional().describe("Starts builds by the clock."),
  }).describe("What starts a build."),
}).superRefine((file, context) => {
  const isOne = (file.plan === undefined) !== (file.brief === undefined);
  const message = "invalid: say what to build, with either `plan` or `brief`";
  if (!isOne) context.addIssue({ code: "custom", path: [], message });
  const keys = (file.on.schedule ?? []).map(({ name, cron }) => name ?? cron);
  for (const [index, key] of keys.entries()) {
    if (keys.indexOf(key) === index) continue;
    const repeated = `duplicate-id: another schedule is called ${key}; give this one a name of its own`;
    context.addIssue({ code: "custom", path: ["on", "schedule", index, "cron"], message: repeated });
  }
});

function isTimezone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** A schedule of a file: what it is called, and when it starts builds. */
export interface NamedSchedule extends ScheduleTimes {
  readonly name: string;
}

export interface StandingFile {
  /** A path in the repository, the value of a plan, or null with a brief. */
  readonly plan: { readonly path: string } | { readonly value: unknown } | null;
  readonly brief: string | null;
  readonly yes: boolean;
  readonly budget: unknown;
  readonly schedules: readonly NamedSchedule[];
  /** The branches, as globs, whose pushes start builds. */
  readonly branches: readonly string[];
  /** The label that starts builds; null: none. */
  readonly label: string | null;
}

export interface ParsedStandingFile {
  /** Null when there are faults. */
  readonly file: StandingFile | null;
  /** All faults, with their lines. */
  readonly faults: PlanFault[];
}

/**
 * Checks the text of a `wavesmith.yaml`, with the plan inside it if there is one. Faults are data.
 */
export function parseStandingFile(text: string, env: Environment): ParsedStandingFile {
  const read = readPlanText(text, "yaml");
  const sink = createFaultSink(read.locate);
  for (const fault of read.faults) sink.report(fault);
  if (read.value === undefined) return { file: null, faults: sink.list() };
  const value = cleanValue(read.value, sink);
  const parsed = standingFileSchema.safeParse(value);
  if (!parsed.success) reportSchemaIssues(parsed.error.issues, value, sink);
  const faults = [...sink.list(), ...planFaults(value, read.locate, env)];
  if (!parsed.success || faults.length > 0) return { file: null, faults };
  return { file: standingFileOf(parsed.data), faults };
}

/** The faults of a plan inside the file. */
function planFaults(value: unknown, locate: Parameters<typeof createFaultSink>[0], env: Environment): PlanFault[] {
  const { plan } = (typeof value === "object" && value !== null ? value : {}) as { plan?: unknown };
  if (typeof plan !== "object" || plan === null) return [];
  const sink: FaultSink = createFaultSink((path, what) => locate(["plan", ...path], what));
  const { faults } = parsePlanPart(plan, sink, { baseDir: null, env });
  return faults.map((fault) => ({ ...fault, path: `plan.${fault.path}` }));
}

function standingFileOf({ plan, brief, yes, budget, on }: z.output<typeof standingFileSchema>): StandingFile {
  return {
    plan: plan === undefined ? null : typeof plan === "string" ? { path: plan } : { value: plan },
    brief: brief ?? null,
    yes: yes ?? false,
    budget,
    schedules: (on.schedule ?? []).map(({ name, cron, timezone }) => ({ name: name ?? cron, cron, timezone })),
    branches: on.push?.branches ?? [],
    label: on.label ?? null,
  };
}

/** Builds the JSON Schema of a `wavesmith.yaml` for editors. */
export function standingJsonSchema(): Record<string, unknown> {
  const schema = z.toJSONSchema(standingFileSchema, {
    io: "input",
    target: "draft-2020-12",
    override: ({ jsonSchema }) => {
      if (jsonSchema.additionalProperties === false) jsonSchema.patternProperties = { "^x-": {} };
    },
  });
  return { ...schema, title: "What starts Wavesmith's builds in a repository" };
}
