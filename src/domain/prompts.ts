// Prompts are templates: `{{name}}` stands for a part that we fill in. Which parts there are is
// said here, so that a prompt of a project's own is checked with its plan and not when an agent is
// to be started.

const promptKinds = ["task", "plan", "fix", "review", "checks"] as const;
export type PromptKind = (typeof promptKinds)[number];

interface Placeholders {
  /**
   * Without these the agent would not know what it is for, or not that text of others is no
   * instruction.
   */
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

/** The parts of each prompt. */
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
    optional: ["gate", "role", "plan", "round", "maxRounds", "about", "command", "context", "tasks", "changedFiles"],
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
 * The prompt that a role's own one stands in for: the planner's for plans, the fixer's for fixes,
 * the critic's for reviews, a gate's for its checks, any other's for tasks.
 */
export function promptKindOf(role: string, gateRoles: readonly (string | null)[] = []): PromptKind {
  if (role === "planner") return "plan";
  if (role === "fixer") return "fix";
  if (role === "critic") return "review";
  return gateRoles.includes(role) ? "checks" : "task";
}

/** What a template asks for that nobody gives, and what it must ask for and does not. */
export function placeholderFaults(kind: PromptKind, template: string): { unknown: string[]; missing: string[] } {
  const { required, optional } = promptPlaceholders[kind];
  const asked = new Set([...template.matchAll(placeholderPattern)].map((match) => match[1]!));
  return {
    unknown: [...asked].filter((name) => !required.includes(name) && !optional.includes(name)),
    missing: required.filter((name) => !asked.has(name)),
  };
}

const placeholderPattern = /\{\{(\w+)\}\}/g;
