import { randomBytes, randomUUID } from "node:crypto";
import { dirname, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { requestedSource } from "../../coordinator/build/request/build-request.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { makeEvent } from "../../domain/events/events.ts";
import { buildIdForEvent } from "../../domain/events/request-ids.ts";
import { present } from "../../domain/known.ts";
import type { Plan } from "../../domain/plan/plan.ts";
import { type NetworkPolicy, networkOf } from "../../domain/sandbox/network.ts";
import { type Steered, withSteered } from "../builds/open.ts";
import { type Context, maxProjectLength, type Server } from "../context.ts";
import { findServer } from "../data/server-address.ts";
import type { Session } from "../data/session.ts";
import { isInteractive } from "../driving/answering.ts";
import { driveToEnd } from "../driving/drive.ts";
import { openWebView } from "../driving/web-view.ts";
import { type Interrupts, readerGone, watchInterrupts } from "../interrupts.ts";
import { exit } from "../output/exit-codes.ts";
import { driverForTrial, lackingDriver, rawPlan, readPlan, traitsOf, unsafeDriver } from "../parts.ts";
import { budgetFrom, promptFrom, sourceFrom } from "../request/brief.ts";
import { requestOnServer } from "../request/on-server.ts";
import { filesOfPlan, findOwnSource, type OwnSource, type SourceOptions } from "../request/own-source.ts";
import { printPlanFaults } from "../request/plan-faults.ts";
import { requester } from "../request/requester.ts";
import { type SourceNews, sourceNews } from "../request/source-news.ts";
import { readPlanForServer, sendablePlan } from "../server/sendable-plan.ts";
import { briefText } from "../view/plan-lines.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";
import { announceBuild } from "./detach.ts";

export interface BuildOptions extends SourceOptions {
  readonly wait: boolean;
  readonly demo?: boolean;
  /** Shows the build in the browser as well. */
  readonly web?: boolean;
  /** Tells the process that started this one which build it is. */
  readonly inBackground?: boolean;
  /** Hears the build's id once it is stored. */
  readonly onRequested?: (buildId: string) => void;
}

export interface BriefOptions extends BuildOptions {
  /** A folder, or a git repository with an optional `#ref`. */
  readonly source?: string;
  /** Runs the drafted plan without asking for approval. */
  readonly yes?: boolean;
  /** The budget of the whole build, such as `usd=5,tokens=2000000`. */
  readonly budget?: string;
  /** A file with a custom prompt for the planner. */
  readonly plannerPrompt?: string;
}

/** `build PLAN`: runs a build to its end in this process. */
export async function build(context: Context, file: string, options: BuildOptions): Promise<number> {
  const isSent = (await context.server()) !== null;
  const read = isSent ? readPlanForServer(file) : readPlan(file, context.environment);
  const { plan, faults, refused, warnings } = await read;
  for (const warning of warnings) context.warn(warning);
  const all = [...faults, ...refused];
  if (plan === null || all.length > 0) {
    printPlanFaults(context, file, all);
    return exit.usage;
  }
  const value = (await rawPlan(file)) as { source?: unknown };
  const own = await findOwnSource(context, {
    plan,
    isNamed: value.source !== undefined || options.demo === true,
    planFiles: filesOfPlan(file, value),
    options,
  });
  return start({
    context,
    plan: { ...plan, source: requestedSource(plan.source, requestOf(own, options)) },
    from: `plan ${file}`,
    project: projectName(context, plan, options),
    request: isSent
      ? { plan: await sendablePlan(file) }
      : { plan: value, planFolder: dirname(resolve(file)), ...requestOf(own, options) },
    own,
    options,
  });
}

/**
 * `build --brief TEXT`: has a planner draft the plan, asks for approval (unless `--yes`), and runs
 * it.
 */
export async function buildBrief(context: Context, text: string, options: BriefOptions): Promise<number> {
  const { agentsOfBrief, planOfBrief } = await import("../../coordinator/build/request/build-request.ts");
  const prompt = options.plannerPrompt === undefined ? null : await promptFrom(options.plannerPrompt);
  const isSent = (await context.server()) !== null;
  const config = await context.config();
  // If we choose none, the server's own agent plans and builds.
  const agents =
    isSent && config.briefAgents.default === undefined && prompt === null ? null : agentsOfBrief(config, prompt);
  const isEmpty = options.source === undefined || options.source === "empty";
  const source = isEmpty ? undefined : sourceFrom(options.source);
  const budget = options.budget === undefined ? undefined : budgetFrom(options.budget);
  const plan = planOfBrief({ text, project: context.options.project, source, agents: agents ?? serversAgents, budget });
  const isNamed = source !== undefined || options.demo === true || options.source === "empty";
  const own = await findOwnSource(context, { plan, isNamed, planFiles: new Set(), options });
  const said = { brief: text, yes: options.yes === true, ...(budget === undefined ? {} : { budget }) };
  const here = { ...said, agents, ...(source === undefined ? {} : { source }), ...requestOf(own, options) };
  return start({
    context,
    plan: { ...plan, source: requestedSource(plan.source, requestOf(own, options)) },
    from: `brief ${briefText(text)}`,
    project: projectName(context, plan, options),
    request: isSent ? { ...said, ...(agents === null ? {} : { agents }) } : here,
    own,
    options,
  });
}

/** Completes the plan of a brief here, where only its name and source are read. */
const serversAgents = { default: { runtime: "command", command: "true" } };

/** The source in the request. */
const requestOf = ({ repository }: OwnSource, { updateSource }: SourceOptions) => ({
  ...(repository === null ? {} : { repository }),
  // Whoever includes uncommitted work also wants it in a later build of the project.
  ...(updateSource || repository?.uncommitted === true ? { updateSource: true } : {}),
});

async function start(asked: Asked): Promise<number> {
  const { context } = asked;
  const presenter = createPresenter(context);
  const interrupts = watchInterrupts(process);
  context.out.onClosed(() => interrupts.raise(readerGone));
  try {
    return await run({ ...asked, presenter, interrupts });
  } finally {
    presenter.close();
    interrupts.dispose();
  }
}

/** A build to request. */
interface Asked {
  readonly context: Context;
  readonly plan: Plan;
  /** The brief. */
  readonly from: string;
  readonly project: string;
  /** The data of its event. */
  readonly request: { readonly plan?: object } & Readonly<Record<string, unknown>>;
  readonly own: OwnSource;
  readonly options: BuildOptions;
}

interface Run extends Asked {
  readonly presenter: Presenter;
  readonly interrupts: Interrupts;
}

async function run(given: Run): Promise<number> {
  const { context, presenter, interrupts } = given;
  let requested = false;
  interrupts.on((count) => {
    if (requested) return;
    if (count > 1) process.exit(exit.cancelled);
    presenter.lines([{ tone: "warn", text: "stopping before anything was started (Ctrl-C again quits at once)" }]);
  });
  const server = await context.server();
  const way = server === null ? requestHere(given) : requestThere(given, server);
  const work = async (steered: Steered): Promise<number> => {
    await way.ready;
    if (interrupts.count > 0) return exit.cancelled;
    requested = true;
    return watchBuild(given, steered, await way.request(steered.session));
  };
  return withSteered(context, presenter, work, { mayBeNew: true });
}

/** A build that was requested. */
interface Requested {
  readonly buildId: string;
  readonly projectId: string;
  readonly driver: string;
  readonly news: SourceNews | null;
}

/** How a build is requested. */
interface RequestWay {
  /** Resolves once this machine has everything the build needs; otherwise rejects. */
  readonly ready: Promise<unknown>;
  /** Stores the build, which then starts. */
  request(session: Session | null): Promise<Requested>;
}

function requestHere(given: Run): RequestWay {
  // Trying the driver and opening the app both take a moment and are independent.
  const ready = usableDriver(given);
  ready.catch(() => undefined); // Awaited later.
  return { ready, request: async (session) => requestInDirectory(given, present(session, "the session"), await ready) };
}

const requestThere = ({ context, presenter, project, plan, request }: Run, server: Server): RequestWay => ({
  ready: Promise.resolve(),
  async request() {
    presenter.phase("sending the plan and its source to the server");
    const asked = { project, plan, request, requestedBy: requester(), interactive: isInteractive(context) };
    return { ...(await requestOnServer(context, server, asked)), news: null };
  },
});

/**
 * Returns the driver to build with, after trying it. Fails with `environment`, naming each problem
 * and its remedy.
 */
async function usableDriver({ context, presenter, options }: Run): Promise<string> {
  const config = await context.config();
  const name = config.sandboxDriver;
  const problems = await (await driverForTrial(config, name)).check();
  if (problems.length === 0) return name;
  const isElsewhere = problems.some(({ lacks }) => lacks === "disk");
  if (options.demo !== true || name === unsafeDriver || isElsewhere) throw lackingDriver(name, problems);
  for (const { what, remedy } of problems) presenter.warn(`${what} (${remedy})`);
  presenter.warn(
    `THE DEMO RUNS WITHOUT ISOLATION (${unsafeDriver}): its agents are ordinary processes on this machine`,
  );
  const unsafe = await (await driverForTrial(config, unsafeDriver)).check();
  if (unsafe.length > 0) throw lackingDriver(unsafeDriver, unsafe);
  return unsafeDriver;
}

async function requestInDirectory(given: Run, session: Session, driver: string): Promise<Requested> {
  const { context, plan, project } = given;
  const { projectIdFor } = await import("../../coordinator/build/request/project.ts");
  const { refuseWithoutModels } = await import("../../coordinator/plan/plan-models.ts");
  refuseWithoutModels(session.app.ports.models, plan);
  const projectId = projectIdFor("default", project);
  const news = await sourceNews(session, { project, projectId, plan, brief: given.request.brief ?? null });
  const request = makeEvent("project/build.requested", randomUUID(), 0, {
    projectId,
    project,
    requestedBy: requester(),
    ...(isInteractive(context) ? { interactive: true } : {}),
    ...given.request,
    sandbox: driver,
  });
  const buildId = buildIdForEvent(request.id);
  await session.drive(projectId);
  await session.app.send(request);
  await untilStored(session, buildId);
  return { buildId, projectId, driver, news };
}

/** Announces a requested build and follows it to its end. */
async function watchBuild(given: Run, steered: Steered, requested: Requested): Promise<number> {
  const { context, presenter, interrupts, from, plan, project, options } = given;
  const { buildId, projectId, driver, news } = requested;
  const { repository: source } = given.own;
  const started = { type: "build.started", buildId, project, projectId, ...(source === null ? {} : { source }) };
  options.onRequested?.(buildId);
  if (options.inBackground === true) announceBuild(buildId);
  if (context.json) context.out.json(started);
  else {
    const opening = [...openingLines({ buildId, project, from, plan, driver }), ...given.own.lines];
    presenter.lines(opening.map((text) => ({ tone: "plain", text })));
    const server = steered.session === null ? null : await findServer((await context.config()).dataDir);
    if (server !== null && options.web !== true)
      presenter.lines([{ tone: "plain", text: `watch it: ${server}/builds/${buildId}` }]);
    if (news !== null) presenter.lines([news]);
  }
  if (context.json && news?.tone === "warn") context.warn(news.text);
  presenter.phase(news === null ? "reading the source and opening the sandbox" : "opening the sandbox");
  const noWait = !options.wait;
  const isShown = options.web === true && steered.session !== null;
  const web = isShown ? await openWebView({ context, session: steered.session, presenter, buildId }) : null;
  try {
    return await driveToEnd({ context, ...steered, presenter, interrupts, buildId, from: "first", noWait });
  } finally {
    await web?.stop();
  }
}

/**
 * Announces a build only once it is in the database, so that every announced build can be resumed.
 */
async function untilStored({ app }: Session, buildId: string): Promise<void> {
  const deadline = Date.now() + 60_000;
  while ((await app.store.builds.find({ id: buildId })) === null) {
    if (Date.now() > deadline)
      throw new Error(`build ${buildId} was requested a minute ago, but no process has started it`);
    await delay(20);
  }
}

function projectName(context: Context, plan: Plan, options: BuildOptions): string {
  const { project } = context.options;
  if (project?.includes("/")) {
    throw new WavesmithError("usage", `--project ${project} has a slash in it`, {
      remedy: "remove the slash from the name",
    });
  }
  const name = project ?? plan.name;
  if (options.demo !== true) return name;
  return `${name.slice(0, maxProjectLength - 7)}-${randomBytes(4).toString("hex").slice(0, 6)}`;
}

interface Opening {
  readonly buildId: string;
  readonly project: string;
  readonly from: string;
  readonly plan: Plan;
  readonly driver: string;
}

function openingLines({ buildId, project, from, plan, driver }: Opening): string[] {
  const first = `build ${buildId}  project ${project}  ${from}`;
  const network = networkOf(plan);
  if (traitsOf(driver).isolation !== "none") return [first, `sandbox ${driver}, network ${networkText(network)}`];
  const not = network.mode === "open" ? "" : `, and network ${network.mode} is NOT enforced`;
  return [first, `sandbox ${driver}: NO ISOLATION, agents are ordinary processes on this machine${not}`];
}

function networkText({ mode, hosts }: NetworkPolicy): string {
  if (mode !== "allowlist") return mode;
  const named = hosts.length === 0 ? "" : `, and ${hosts.join(", ")}`;
  return `allowlist: the usual package registries and forges${named}`;
}
