import { messageOf, WavesmithError } from "../../domain/errors.ts";
import { builtInRoles } from "../../domain/plan/plan.ts";
import type { Context } from "../context.ts";
import { exit } from "../output/exit-codes.ts";
import { harmless, oneLine } from "../output/format.ts";
import {
  type CompatibleServer,
  compatibleModels,
  type Greeting,
  greetAgents,
  type KnownAgent,
  knownAgents,
  signIns,
} from "../parts/agents.ts";
import type { Config } from "../parts.ts";
import { type ServerApi, serverApi } from "../server/server-api.ts";

interface Lack {
  readonly what: string;
  readonly remedy: string;
}

/** One agent as `agents` reports it. */
export interface AgentReport extends KnownAgent {
  /** Null if it could not be tried. */
  readonly greeting: Greeting | null;
  /** The settings that give the proxy access to its models. */
  readonly signedInWith: readonly string[];
  readonly lacks: readonly Lack[];
}

/** `agents`: tries every known agent in a sandbox and reports what each one lacks. */
export async function agents(context: Context): Promise<number> {
  const onTrial = (count: number): void => {
    if (!context.json && context.out.live) context.out.note(`trying ${count} agents…`);
  };
  const server = await serverApi(context);
  const report = server === null ? await reportAgents(await context.config(), onTrial) : await reportOfServer(server);
  if (context.json) context.out.json(report);
  else printReports(context, report);
  return report.untried === null ? exit.ok : exit.environment;
}

/** Tries every known agent; `onTrial` gets their number before. */
export async function reportAgents(config: Config, onTrial: (count: number) => void = () => undefined) {
  const known = await knownAgents(config);
  let greetings: readonly Greeting[] | null = null;
  let untried: Lack | null = null;
  try {
    onTrial(known.length);
    greetings = await greetAgents(config, known);
  } catch (error) {
    const remedy = error instanceof WavesmithError ? error.remedy : null;
    untried = { what: messageOf(error), remedy: remedy ?? "run `wavesmith doctor`" };
  }
  const signedIn = signIns(config);
  const reports = known.map((agent, at) => reportOf(agent, greetings?.[at] ?? null, signedIn));
  const ready = reports.filter(({ greeting, lacks }) => greeting?.answers === true && lacks.length === 0);
  const servers = await compatibleModels(config);
  const { sandboxDriver: sandbox } = config;
  return { ok: ready.length > 0, sandbox, untried, agents: reports, servers, roles: rolesOf(config) };
}

/** Lists what an agent lacks, from its pinned data and the trial. */
export function reportOf(
  agent: KnownAgent,
  greeting: Greeting | null,
  signedIn: ReadonlyMap<string, string>,
): AgentReport {
  const signedInWith = agent.providers.flatMap((provider) => signedIn.get(provider) ?? []);
  const lacks: Lack[] = [];
  if (greeting?.answers === false) {
    const isAbsent = greeting.program === null;
    const remedy = isAbsent ? `wavesmith agents install ${agent.name}` : "start it yourself to see its error";
    lacks.push({ what: greeting.problem, remedy });
  }
  if (signedInWith.length === 0) {
    const settings = agent.providers.map((provider) => keys[provider]).join(", or ");
    lacks.push({ what: "no key for its models", remedy: `set ${settings}` });
  }
  return { ...agent, greeting, signedInWith, lacks };
}

const keys: Readonly<Record<string, string>> = {
  anthropic: "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN (claude setup-token)",
  openai: "OPENAI_API_KEY",
  google: "GEMINI_API_KEY",
  compatible: "WAVESMITH_COMPATIBLE_URL",
};

interface Role {
  readonly role: string;
  readonly runtime: string;
}

/**
 * The agent of a role that the plan does not configure: a role without a runtime uses the plan's
 * `default`.
 */
function rolesOf({ briefAgents }: Config): Role[] {
  const ofBrief = (role: string) => briefAgents[role] ?? briefAgents.default;
  const usual = (role: string): string => {
    const agent = ofBrief(role);
    return agent === undefined
      ? "the plan's `default`"
      : `the plan's \`default\`; ${agentText(agent)} in a build from a brief`;
  };
  const planner = ofBrief("planner");
  const without: Readonly<Record<string, string>> = {
    default: "the plan's `default`: used for every role without a runtime",
    critic: "static checks only, unless the plan configures it",
    planner: planner === undefined ? "nothing: set WAVESMITH_MODEL or WAVESMITH_AGENT" : agentText(planner),
    fixer: "the plan's `default`; without it nothing is fixed",
  };
  return builtInRoles.map((role) => ({ role, runtime: without[role] ?? usual(role) }));
}

const agentText = ({ runtime, command, model }: Config["briefAgents"][string]): string =>
  [runtime, command, model].filter((part) => part !== null).join(" ");

type Report = Awaited<ReturnType<typeof reportAgents>>;

/** Has a server try the agents on its machine. */
async function reportOfServer({ api, ask }: ServerApi): Promise<Report> {
  return (await ask(api.GET("/api/v1/agents", { params: { query: { again: "true" } } }))) as unknown as Report;
}

function printReports(context: Context, { agents: reports, untried, servers, sandbox, roles }: Report): void {
  const { out, hints } = context;
  if (untried !== null) {
    out.line(`${out.paint("bad", "✗")} no agent could be tried with --sandbox ${sandbox}: ${untried.what}`);
    out.line(`    remedy: ${hints.rewrite(untried.remedy)}`);
  }
  for (const report of reports) {
    const good = report.greeting?.answers === true && report.lacks.length === 0;
    out.line(
      `${good ? out.paint("good", "✓") : out.paint("warn", "–")} ${report.name} (${report.title}): ${stateOf(report)}`,
    );
    if (report.command !== null) out.line(`    in a plan: { runtime: acp, command: "${report.command}" }`);
    else out.line('    in a plan: { runtime: builtin, model: "provider:model" }');
    if (report.signedInWith.length > 0) out.line(`    models by ${report.signedInWith.join(", ")}, through the proxy`);
    for (const { what, remedy } of report.lacks)
      out.line(`    lacks: ${oneLine(harmless(what))}; remedy: ${hints.rewrite(remedy)}`);
  }
  for (const server of servers) for (const line of serverLines(server)) out.line(line);
  out.line("Any other agent: `runtime: acp` for the Agent Client Protocol, `runtime: command` for any program.");
  out.line("Roles that a plan does not configure:");
  for (const { role, runtime } of roles) out.line(`  ${role.padEnd(15)} ${runtime}`);
}

const maxModels = 50;

/** Lists the models of a compatible server, as a plan names them, with their limits. */
function serverLines({ name, models, problem }: CompatibleServer): string[] {
  if (problem !== null) return [`Models of ${name} could not be listed: ${oneLine(harmless(problem))}`];
  const lines = models.slice(0, maxModels).map(({ name: model, contextTokens, outputTokens }) => {
    const window = contextTokens === null ? "" : `  ${contextTokens} tokens`;
    const answer = outputTokens === null ? "" : `, ${outputTokens} per answer`;
    return `  ${name}:${oneLine(harmless(model))}${window}${answer}`;
  });
  const more = models.length > lines.length ? [`  and ${models.length - lines.length} more`] : [];
  return [`Models of ${name}:`, ...lines, ...more];
}

function stateOf({ greeting, installed, pinned, runtime }: AgentReport): string {
  const version =
    installed === null ? (runtime === "builtin" ? "comes with Wavesmith" : null) : `installed ${installed}`;
  if (greeting === null) return `${version ?? "not installed by `agents install`"}, not tried`;
  if (!greeting.answers) {
    const offered = pinned === null ? "" : ` (${pinned.package} ${pinned.version} is pinned)`;
    return greeting.program === null
      ? `not installed${offered}`
      : `${version ?? `found as ${greeting.program}`}, does not answer`;
  }
  return `${version ?? `found as ${greeting.program}`}, answers as ${oneLine(harmless(greeting.agent))}`;
}
