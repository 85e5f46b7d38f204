import { itemAt } from "../known.ts";

// Prompts are templates: `{{name}}` stands for a section that we fill in. They are listed here so
// that a project's own prompt is checked together with its plan, before any agent starts.

const promptKinds = ["task", "plan", "fix", "review", "checks"] as const;
export type PromptKind = (typeof promptKinds)[number];

interface Placeholders {
  /** Without these the agent would not know its job, or that quoted text is not an instruction. */
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

/** The placeholders of each kind of prompt. */
export const promptPlaceholders: Readonly<Record<PromptKind, Placeholders>> = {
  task: {
    required: ["instructions", "rules"],
    optional: [
      "title",
      "role",
      "plan",
      "about",
      "context",
      "acceptance",
      "writes",
      "dependencies",
      "previousFailure",
      "conflicts",
    ],
  },
  plan: {
    required: ["brief", "handIn"],
    optional: ["role", "plan", "about", "context", "gates", "earlier"],
  },
  fix: {
    required: ["findings", "rules"],
    optional: [
      "gate",
      "role",
      "plan",
      "round",
      "maxRounds",
      "about",
      "command",
      "context",
      "tasks",
      "changedFiles",
      "diff",
    ],
  },
  review: {
    required: ["diff", "handIn"],
    optional: ["wave", "role", "plan", "about", "context", "tasks", "changedFiles"],
  },
  checks: {
    required: ["diff", "handIn"],
    optional: ["gate", "wave", "role", "plan", "about", "context", "outcome", "tasks", "changedFiles"],
  },
};

/**
 * Returns the kind of prompt that a role's own one replaces: the planner's for plans, the fixer's
 * for fixes, the critic's for reviews, a gate's for its checks, any other's for tasks.
 */
export function promptKindOf(role: string, gateRoles: readonly (string | null)[] = []): PromptKind {
  if (role === "planner") return "plan";
  if (role === "fixer") return "fix";
  if (role === "critic") return "review";
  return gateRoles.includes(role) ? "checks" : "task";
}

/** Returns placeholders that do not exist, and required ones that the template lacks. */
export function placeholderFaults(kind: PromptKind, template: string): { unknown: string[]; missing: string[] } {
  const { required, optional } = promptPlaceholders[kind];
  const usedNames = new Set([...template.matchAll(placeholderPattern)].map((match) => itemAt(match, 1)));
  return {
    unknown: [...usedNames].filter((name) => !required.includes(name) && !optional.includes(name)),
    missing: required.filter((name) => !usedNames.has(name)),
  };
}

const placeholderPattern = /\{\{(\w+)\}\}/g;
