import { createAgents } from "../../src/agents/agents.ts";
import { loadConfig } from "../../src/config.ts";
import { reconcileBuilds } from "../../src/coordinator/build/reconcile.ts";
import { resumeBuild } from "../../src/coordinator/build/resume-build.ts";
import { retryBuild } from "../../src/coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../src/coordinator/build/rollback-build.ts";
import { requestCancel } from "../../src/coordinator/build/stop/cancel-build.ts";
import { endJob as tellEnd } from "../../src/coordinator/job/watch-jobs.ts";
import { editPlan } from "../../src/coordinator/plan/edit-plan.ts";
import type { Ports } from "../../src/coordinator/port.ts";
import { createPreviewSandboxes } from "../../src/coordinator/preview/preview-sandboxes.ts";
import { approveWave, rejectWave } from "../../src/coordinator/wave/decide-wave.ts";
import { forsakenMs, sweepTrees } from "../../src/coordinator/wave/sweep-trees.ts";
import { messageOf, WavesmithError } from "../../src/domain/errors.ts";
import { buildIdForEvent } from "../../src/domain/events/request-ids.ts";
import type { Id, IdSource } from "../../src/domain/ids.ts";
import { handoverPath, sharedTreeAt } from "../../src/domain/sandbox/volume-paths.ts";
import { traitsOf } from "../../src/sandbox/drivers/registry.ts";
import type { GuestHealth } from "../../src/sandbox/port.ts";
import { ensureSandbox } from "../../src/sandbox-lifecycle/ensure-sandbox.ts";
import { watchVolume } from "../../src/sandbox-lifecycle/volume-limit.ts";
import type { AttemptRow, BuildRow, GateRunRow, JobLease, JobRow, TaskRow, WaveRow } from "../../src/store/port.ts";
import { createMemoryDatabase } from "../support/memory-store.ts";
import { createRandom } from "../support/random-plan.ts";
import { atTheEnd, project, projectId, type Weather } from "./end.ts";
import { bindFunctions, createEventRunner, type EventRunner, type Participant } from "./event-runner.ts";
import { fakeGates } from "./fake-gates.ts";
import { createFakeGit, createFakeWorkspace } from "./fake-git.ts";
import { createFakeDriver, type FakeJob, killMachine, type Machines, noSnapshots } from "./fake-sandbox.ts";
import { createWatch } from "./invariants.ts";
import { addedTask, finishJob, type SimulatedPlan, simulatedPlan, type Work } from "./plans.ts";
import { createTurns, type Orchestrator, settled } from "./turns.ts";

// One world from one number: builds of a project, one to three orchestrators on one database, and
// every disturbance that can happen. The coordinator and the functions are real; their ports are
// fakes.

export interface Simulated {
  readonly steps: number;
  readonly statuses: readonly string[];
  readonly happened: Readonly<Record<string, number>>;
}

const agents = createAgents();
const lostState = (key: string) => ({
  key,
  status: "lost" as const,
  revision: 0,
  stages: [],
  createdAt: "",
  endedAt: null,
  cancelReason: null,
  outputBytes: 0,
  labels: {},
});

const maxSteps = 60_000;
/** How many of the last events a failure prints. */
const longestTrace = Number(process.env.WAVESMITH_TRACE ?? 200);

function workOfGate({ gate, evidence }: GateRunRow, jobKey: string): Work {
  const resultFile = `${handoverPath(jobKey)}/result.json`;
  if (gate === "critic") return { kind: "look", isSecond: evidence?.firstLook !== undefined, resultFile };
  const phase = evidence?.added?.phase ?? null;
  if (phase === null) return { kind: "gate" };
  return phase === "asking" ? { kind: "ask", resultFile } : { kind: "added" };
}

/** Runs the world of a seed to its end. Fails with what broke, and the events before it. */
export async function simulate(seed: number): Promise<Simulated> {
  const world = createWorld(seed);
  try {
    for (let step = 0; step < maxSteps; step += 1) {
      world.tick();
      if (!(await world.goOn())) return { steps: step, ...(await world.end()) };
      world.refuse();
    }
    throw new Error(`it does not end within ${maxSteps} steps`);
  } catch (error) {
    throw new Error(`seed ${seed}: ${messageOf(error)}\n${world.trace.join("\n")}`, { cause: error });
  }
}

function createWorld(seed: number) {
  const random = createRandom(seed);
  const some = (probability: number, most: number) => (random.chance(probability) ? random.between(1, most) : 0);
  const weather: Weather = {
    drops: random.chance(0.3) ? 0.05 : 0,
    repeats: random.chance(0.6) ? 0.2 : 0,
    forgets: random.chance(0.5) ? 0.1 : 0,
    deaths: some(0.5, 4),
    takeovers: some(0.3, 4),
    machineDeaths: some(0.3, 2),
    volumeLosses: some(0.1, 1),
    cancels: some(0.25, 2),
    retries: random.between(0, 3),
    rollbacks: some(0.15, 1),
    edits: some(0.15, 1),
    outages: random.chance(0.2) ? random.pick([0.005, 0.02, 0.1]) : 0,
    timeJumps: some(0.4, 6),
    shortages: some(0.3, 12),
    fullVolumes: some(0.15, 3),
  };
  const left = { ...weather };
  const taskSlots = random.chance(0.3) ? random.between(1, 3) : random.pick(["auto", null] as const);
  const tenantTasks = random.chance(0.2) ? random.between(1, 2) : null;
  const happened: Record<string, number> = {};
  const trace: string[] = [];
  const say = (what: string, detail = ""): void => {
    happened[what] = (happened[what] ?? 0) + 1;
    trace.push(`${what} ${detail}`);
    if (trace.length > longestTrace) trace.shift();
  };

  let now = Date.UTC(2026, 0, 1);
  const orchestrators = new Map<string, Participant>();
  const database = createMemoryDatabase({ now: () => new Date(now), isAlive: (owner) => orchestrators.has(owner) });
  const rows = <Row>(name: keyof typeof database.rows): Row[] => [...database.rows[name]()] as Row[];
  const git = createFakeGit();
  const machines: Machines = new Map();
  const turns = createTurns();
  const limits = [taskSlots, tenantTasks].filter((limit) => typeof limit === "number");
  const watch = createWatch(database, git, limits.length === 0 ? null : Math.min(...limits));
  const faults: string[] = [];
  const held = new Map<string, JobLease[]>();
  const telling = new Set<string>();

  const plans = new Map<string, SimulatedPlan>();
  const runner: EventRunner = createEventRunner({
    random,
    delivery: weather,
    handlers: () => [...anybody().handlers.values()],
    nowMs: () => now,
    rests: say,
  });

  let made = 0;
  const join = (): void => {
    made += 1;
    const self: Orchestrator = { name: `o${made}`, isAlive: true };
    const turn = async (name: string): Promise<void> => {
      if (/\.(find|get|list)$|unfinished/.test(name) && !random.chance(0.1)) return;
      await turns.wait(self, name);
      if (!name.includes(": ") && random.chance(weather.outages))
        throw new WavesmithError("database", `${name} could not be reached`, { retryable: true });
    };
    const ports = portsFor(self.name, turn);
    orchestrators.set(self.name, { self, ports, handlers: bindFunctions(ports), turn });
    held.set(self.name, []);
  };
  const portsFor = (owner: string, turn: Participant["turn"]): Ports => {
    const committing = (name: string): void => {
      if (name === "start-held-back") say("tasks held back are asked for again");
      const broken = watch.look(name);
      if (broken !== null) faults.push(broken);
    };
    const ports: Ports = {
      store: database.connect({ turn, committing, owner }),
      workspace: createFakeWorkspace(git, turn),
      gates: fakeGates,
      agents,
      models: {
        tokenFor: async () => "wst_simulated",
        listen: () => undefined,
        close: async () => undefined,
        countLeft: async () => undefined,
        lacks: () => null,
        isPriced: () => true,
        unfinished: async () => null,
      },
      forges: {
        forge: () => {
          throw new Error("no plan of the simulation delivers to a forge");
        },
        gitEnvironment: async () => ({}),
        get github(): never {
          throw new Error("nobody signs in to GitHub in the simulation");
        },
        secrets: () => ({}),
      },
      notifier: { send: async () => ({ sent: true }) },
      driver: () => createFakeDriver(machines, turn),
      driverTraits: traitsOf,
      snapshots: noSnapshots,
      egress: { denied: async () => [], unreachable: async () => [] },
      machine: {
        room: async () => ({ memoryBytes: memoryLeft(), diskBytes: Number.MAX_SAFE_INTEGER }),
        boot: () => "boot",
      },
      sandboxPolicy: loadConfig({}).sandboxPolicy,
      previews: createPreviewSandboxes(() => ports),
      events: { send: async (events) => runner.send(events) },
      secrets: { values: () => ({}), own: () => ({}) },
      planFiles: { write: async () => undefined, path: (name) => name },
      briefAgents: {},
      environment: {},
      eventSecrets: [],
      forgeRepositories: [],
      clock: { now: () => new Date(now) },
      ids: nextId,
      tenantLimits: { builds: null, tasks: tenantTasks, sandboxes: 16, usd: null },
      taskSlots,
      seesAllTenants: true,
      processors: 2,
      memoryBytes: 8 * 1024 ** 3,
      wakeWatcher: () => undefined,
      log: { warn: (message) => say("warning", message) },
    };
    return ports;
  };
  const memoryLeft = (): number => {
    if (left.shortages === 0) return Number.MAX_SAFE_INTEGER;
    left.shortages -= 1;
    say("there is no room for a sandbox");
    return 0;
  };
  let ids = 0;
  const nextId: IdSource = (kind) => {
    ids += 1;
    return `${kind.replace("-", "")}_${ids}` as Id<typeof kind>;
  };
  const anybody = (): Participant => random.pick([...orchestrators.values()]);

  const count = random.between(1, 3);
  for (let index = 0; index < count; index += 1) join();
  const builds = random.chance(0.25) ? 2 : 1;
  for (let index = 0; index < builds; index += 1) {
    const planned = simulatedPlan(random, `plan${index}`);
    const id = `project/build.requested:${index}:0`;
    plans.set(buildIdForEvent(id), planned);
    runner.send([{ name: "project/build.requested", id, data: { project, projectId, plan: planned.plan } }]);
  }

  /**
   * Does something outside the flow, as a person or a loop of the process would; being refused is
   * not a fault.
   */
  const aside = (what: string, by: Participant, work: (ports: Ports) => Promise<unknown>): void => {
    say(what, by.self.name);
    work(by.ports).catch((error: unknown) => {
      const expected = error instanceof WavesmithError && ["conflict", "not-found"].includes(error.code);
      if (!expected && !(error instanceof WavesmithError && error.retryable))
        faults.push(`${what}: ${messageOf(error)}`);
    });
  };

  const workOf = (job: FakeJob, key: string): Work => {
    const row = rows<JobRow>("jobs").find((candidate) => candidate.key === key)!;
    if (row.ownerKind !== "attempt")
      return workOfGate(rows<GateRunRow>("gateRuns").find(({ id }) => id === row.ownerId)!, key);
    const attempt = rows<AttemptRow>("attempts").find(({ id }) => id === row.ownerId)!;
    if (attempt.kind !== "task") return { kind: attempt.kind, id: attempt.id };
    const task = rows<TaskRow>("tasks").find(({ id }) => id === attempt.taskId)!;
    const behaviour = plans.get(job.spec.labels.build!)!.behaviours.get(task.key)!;
    return { kind: "task", key: task.key, attempt: attempt.number, behaviour };
  };

  const machine = () => machines.get(projectId);
  const runningJobs = (): [string, FakeJob][] =>
    machine()?.isUp === true ? [...machine()!.volume.jobs].filter(([, job]) => job.state.status === "running") : [];
  /** Leases whose job has ended, or is unknown to a running guest. */
  const toTell = (): [Participant, JobLease][] =>
    [...orchestrators.values()].flatMap((by) =>
      held
        .get(by.self.name)!
        .filter((lease) => !telling.has(`${by.self.name} ${lease.job.key} ${lease.fence}`))
        .filter(({ job }) => machine()?.volume.jobs.get(job.key)?.state.status !== "running")
        .map((lease): [Participant, JobLease] => [by, lease]),
    );
  const unwatched = (): boolean =>
    rows<JobRow>("jobs").some(
      ({ status, leaseOwner, leaseUntil }) =>
        status === "running" &&
        (leaseOwner === null || !orchestrators.has(leaseOwner) || (leaseUntil !== null && leaseUntil.getTime() < now)),
    );
  const all = () => rows<BuildRow>("builds");
  /** If an event was lost that should have closed a tree, the project's next build closes it. */
  const nextBuildComes = async (): Promise<void> => {
    if (machine() === undefined) return;
    now += 2 * forsakenMs;
    const ports = portsFor("later", async () => undefined);
    const build = all().at(-1)!;
    await sweepTrees(ports, build, (await ensureSandbox(ports, build)).guest);
  };
  const find = (...statuses: BuildRow["status"][]) => all().find((build) => statuses.includes(build.status));

  const look = (by: Participant): void => {
    aside("looks for jobs", by, async ({ store }) => {
      const own = held.get(by.self.name)!;
      const request = { projectIds: "all" as const, owner: by.self.name, leaseMs: 15_000, limit: 3 };
      own.push(...(await store.leaseJobs(request)));
    });
  };
  const tell = ([by, lease]: [Participant, JobLease]): void => {
    const mark = `${by.self.name} ${lease.job.key} ${lease.fence}`;
    telling.add(mark);
    aside("tells an end", by, async (ports) => {
      try {
        const build = await ports.store.builds.get({ id: lease.job.buildId });
        const state = machine()?.volume.jobs.get(lease.job.key)?.state ?? lostState(lease.job.key);
        await tellEnd(ports, build, lease, state);
        const own = held.get(by.self.name)!;
        own.splice(own.indexOf(lease), 1);
        await sendOutbox(ports);
      } finally {
        telling.delete(mark);
      }
    });
  };
  const sendOutbox = (ports: Ports) =>
    ports.store.drainOutbox("all", async (events) =>
      runner.send(events.map(({ name, eventId, data }) => ({ name, id: eventId, data }))),
    );
  const reconciling = new Set<string>();
  const reconcile = (by: Participant): void => {
    if (reconciling.has(by.self.name)) return;
    reconciling.add(by.self.name);
    aside("reconciles", by, async (ports) => {
      try {
        await reconcileBuilds(ports, "all");
        await sendOutbox(ports);
      } finally {
        reconciling.delete(by.self.name);
      }
    });
  };
  const die = (): void => {
    const { self } = anybody();
    say("an orchestrator dies", self.name);
    self.isAlive = false;
    orchestrators.delete(self.name);
    turns.forget(self);
    runner.leave(self);
    join();
  };
  const takeOver = (): void => {
    const run = random.pick(runner.busy as never[]) as (typeof runner.busy)[number];
    const by = anybody();
    say("a run is taken over", `${run.functionId} by ${by.self.name}`);
    runner.take(run, by);
  };
  const loseMachine = (withVolume: boolean): void => {
    say(withVolume ? "a volume is lost" : "a sandbox dies");
    killMachine(machine()!, { withVolume });
  };
  /** A volume is found above its limit, now and the next few times it is measured. */
  const fillVolume = (by: Participant): void => {
    machine()!.volume.overLimit = random.between(1, 4);
    aside("a volume is above its limit", by, async (ports) => {
      const row = await ports.store.sandboxes.find({ projectId, state: "running" });
      if (row !== null) await watchVolume(ports, row, { activeJobs: 1, idleMs: 0 } as GuestHealth);
    });
  };
  /** Passes the time until the first sleeping run goes on. */
  const wait = (untilMs: number): void => {
    now = untilMs;
    say("a while passes");
  };
  const jump = (): void => {
    now += random.pick([20_000, 150_000]);
    say("a long time passes");
  };
  /** A person adds a task to the plan, or changes one. */
  const edit = async (ports: Ports, { id, plan }: BuildRow): Promise<void> => {
    takenBack.add(id);
    const again = plan.tasks.map((task, index) => (index === 0 ? { ...task, timeoutMs: task.timeoutMs + 1 } : task));
    const { task, behaviour } = addedTask(plan.tasks);
    const adds = random.chance(0.5);
    await editPlan(ports, id, { ...plan, tasks: adds ? [...plan.tasks, task] : again });
    if (adds) plans.get(id)!.behaviours.set(task.key, behaviour);
  };
  const takenBack = new Set<string>();
  /** Builds whose rollback was interrupted and is not requested again. */
  const halfDone = new Set<string>();

  /** Everything that could happen now, with how often it should. */
  const choices = (): [number, () => unknown][] => {
    const waiting = find("waiting");
    const stopped = find("failed", "cancelled");
    const done = find("completed");
    const active = find("running", "queued");
    const free = find("running", "waiting", "cancelling", "queued") === undefined;
    const wave = waiting === undefined ? undefined : latestWave(waiting.id);
    const calm = turns.waiting === 0 && runner.idle.length === 0;
    const dueMs = runner.nextDueMs;
    const entries: [boolean, number, () => unknown][] = [
      [turns.waiting > 0, 9, giveTurn],
      [runner.idle.length > 0, 12, () => begin()],
      [runningJobs().length > 0, calm ? 6 : 2, () => finish()],
      [toTell().length > 0, calm ? 20 : 2, () => tell(random.pick(toTell()))],
      [unwatched(), calm ? 20 : 2, () => look(anybody())],
      [true, 0.3, () => reconcile(anybody())],
      [left.deaths > 0, 0.4, () => use("deaths", die)],
      [left.takeovers > 0 && runner.busy.length > 0, 0.5, () => use("takeovers", takeOver)],
      [left.machineDeaths > 0 && machine()?.isUp === true, 0.3, () => use("machineDeaths", () => loseMachine(false))],
      [left.volumeLosses > 0 && machine()?.isUp === true, 0.2, () => use("volumeLosses", () => loseMachine(true))],
      [
        left.cancels > 0 && active !== undefined,
        0.3,
        () => use("cancels", () => aside("cancel", anybody(), (ports) => requestCancel(ports, active!.id, "enough"))),
      ],
      [left.fullVolumes > 0 && machine()?.isUp === true, 0.3, () => use("fullVolumes", () => fillVolume(anybody()))],
      [left.timeJumps > 0, 0.3, () => use("timeJumps", jump)],
      [dueMs !== null, calm ? 3 : 0.5, () => wait(dueMs!)],
      [
        left.edits > 0 && (stopped ?? done ?? waiting) !== undefined && find("running", "queued") === undefined,
        0.5,
        () => use("edits", () => aside("edit", anybody(), (ports) => edit(ports, (stopped ?? done ?? waiting)!))),
      ],
      [
        waiting !== undefined && wave?.status === "waiting",
        2,
        () => aside("decision", anybody(), (ports) => decide(ports, waiting!.id)),
      ],
      [
        waiting !== undefined && wave?.status !== "waiting",
        2,
        () => aside("resume", anybody(), (ports) => resumeBuild(ports, waiting!.id)),
      ],
      [
        left.retries > 0 && stopped !== undefined && free,
        1,
        () =>
          use("retries", () =>
            aside("retry", anybody(), (ports) => retryBuild(ports, stopped!.id, { unchanged: true })),
          ),
      ],
      [
        left.rollbacks > 0 && done !== undefined && free,
        1,
        () => use("rollbacks", () => aside("rollback", anybody(), (ports) => rollback(ports, done!.id))),
      ],
    ];
    return entries.flatMap(([possible, weight, act]) => (possible ? [[weight, act] as [number, () => unknown]] : []));
  };
  const giveTurn = (): void => say("turn", turns.give(random));
  const use = (name: keyof Weather, act: () => void): void => {
    left[name] -= 1;
    act();
  };
  const begin = (): void => {
    const run = random.pick([...runner.idle]);
    const by = anybody();
    say("a run", `${run.functionId} ${run.event.id} by ${by.self.name}`);
    runner.take(run, by);
  };
  const finish = (): void => {
    const [key, job] = random.pick(runningJobs());
    const work = workOf(job, key);
    finishJob(random, machine()!.volume, job, work);
    say("a job ends", `${key} ${job.state.status}`);
    if (work.kind === "look" && work.isSecond) say("a critic looks again", key);
    if (work.kind === "ask") say("a gate's agent is asked", key);
    if (work.kind === "added") say("added checks are run", key);
    const tree = job.spec.stages.at(-1)?.cwd;
    if (tree !== undefined && sharedTreeAt(tree) !== null) say("a job ends in a shared tree", tree);
  };
  const decide = (ports: Ports, buildId: string): Promise<unknown> =>
    random.chance(0.75)
      ? approveWave(ports, buildId, { by: null })
      : rejectWave(ports, buildId, { by: null, reason: "not good enough" });
  const rollback = async (ports: Ports, buildId: string): Promise<void> => {
    takenBack.add(buildId);
    const last = latestWave(buildId)!.number;
    halfDone.add(buildId);
    await rollbackBuild(ports, buildId, random.between(0, last));
    halfDone.delete(buildId);
  };
  const latestWave = (buildId: string): WaveRow | undefined =>
    rows<WaveRow>("waves")
      .filter((wave) => wave.buildId === buildId)
      .sort((one, other) => other.number - one.number)[0];

  const openRows = (): string => {
    const over = new Set<unknown>(["ended", "settled", "finished", "passed", "completed"]);
    const names = ["builds", "waves", "tasks", "attempts", "gateRuns", "jobs"] as const;
    const open = names.flatMap((name) => rows<{ id?: string; key?: string; status: string }>(name));
    return open.flatMap(({ id, key, status }) => (over.has(status) ? [] : [`${id ?? key} ${status}`])).join(", ");
  };
  let stillRounds = 0;
  let lastProgress = 0;
  const quiet = (): boolean =>
    turns.waiting === 0 && runner.idle.length === 0 && runner.busy.length === 0 && runningJobs().length === 0;
  const isOver = (): boolean =>
    quiet() &&
    runner.nextDueMs === null &&
    all().length === plans.size &&
    find("running", "queued", "cancelling", "waiting") === undefined;

  return {
    trace,
    tick: () => {
      now += 1;
    },
    refuse: () => {
      if (faults.length > 0) throw new Error(faults[0]);
    },
    /** Lets one thing happen; false if nothing can happen any more. */
    async goOn(): Promise<boolean> {
      if (isOver() && !unwatched() && toTell().length === 0 && (left.retries === 0 || random.chance(0.5))) return false;
      const isStill =
        quiet() && !unwatched() && toTell().length === 0 && find("waiting") === undefined && runner.nextDueMs === null;
      if (isStill) {
        const progress = database.rows.outbox().length;
        stillRounds = progress === lastProgress ? stillRounds + 1 : 0;
        lastProgress = progress;
        if (stillRounds > 50) throw new Error(`nothing moves: ${openRows()}`);
        now += random.between(5_000, 130_000);
        say("time passes");
        reconcile(anybody());
        await settled();
      }
      // Half of the time a waiting process goes on, which saves looking for everything else that
      // could happen.
      if (turns.waiting > 0 && random.chance(0.5)) {
        giveTurn();
        await settled();
        return true;
      }
      const possible = choices();
      let mark = (random.between(0, 1e6) / 1e6) * possible.reduce((sum, [weight]) => sum + weight, 0);
      const chosen = possible.find(([weight]) => {
        mark -= weight;
        return mark <= 0;
      });
      await (chosen ?? possible[0]!)[1]();
      await settled();
      return true;
    },
    async end() {
      if (runner.dropped > 0) await nextBuildComes();
      const problems = atTheEnd({
        rows,
        git,
        machine: machine(),
        plans,
        weather,
        takenBack,
        halfDone,
        gaveUp: (happened.warning ?? 0) > 0,
      });
      if (problems.length > 0) throw new Error(problems.join("\n"));
      return { statuses: all().map(({ status }) => status), happened };
    },
  };
}
