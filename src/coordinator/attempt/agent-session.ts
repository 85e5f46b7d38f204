import type { ChatLine } from "../../agents/port.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { agentSpecFor } from "../../domain/plan/plan.ts";
import { providerToolsOf } from "../../domain/sandbox/network.ts";
import { handoverPath } from "../../domain/sandbox/volume-paths.ts";
import type { GuestClient } from "../../sandbox/port.ts";
import { ensureSandbox } from "../../sandbox-lifecycle/ensure-sandbox.ts";
import type { BuildRow } from "../../store/port.ts";
import { isPlanner } from "../plan/made-plan.ts";
import type { Ports } from "../port.ts";
import { homeOf, homesOf, type LoadedAttempt, loadAttempt } from "./attempt.ts";

// A person continues the session of an agent whose attempt did not succeed.
//
// TA1. Only while the build does not run: its next attempt has the session to itself, and continues
// it with what the person said.
// TA2. The tree is at the attempt's path, because agents find their sessions by it, and it is
// removed in the end.

/** An agent's session in its own job. */
export interface AgentSession {
  readonly guest: GuestClient;
  readonly jobKey: string;
  /** Writes what a person says as a line of the job's stdin. */
  write(said: ChatLine): string;
  /** Which attempt it is of. */
  readonly label: string;
  /** Ends the job and removes its tree. */
  close(): Promise<void>;
}

const longestMs = 12 * 3600 * 1000;

/** Starts the agent of a task's last attempt in its session. Fails if there is none. */
export async function openAgentSession(ports: Ports, build: BuildRow, taskKey: string): Promise<AgentSession> {
  const loaded = await findSession(ports, build, taskKey);
  const { attempt } = loaded;
  const { guest, workspaceRoot } = await ensureSandbox(ports, build);
  const { treePath } = attempt;
  const sha = attempt.commitSha ?? attempt.baseSha;
  const jobKey = `session-${attempt.id}-${ports.clock.now().getTime()}`;
  const stage = await sessionStageOf(ports, loaded, workspaceRoot);
  await ports.workspace.openTree({ projectId: build.projectId, guest, treePath, sha, reuse: false });
  const writable = [treePath, "cache", ...homesOf(loaded)];
  await guest.startJob(jobKey, { stages: [stage], writable, labels: { session: taskKey } });
  return {
    guest,
    jobKey,
    write: (said) => ports.agents.chatLine(said),
    label: `attempt ${attempt.number} of ${taskKey}`,
    async close() {
      await guest.cancelJob(jobKey, { reason: "the session was left", graceMs: 5_000 });
      await guest.forgetJob(jobKey);
      await ports.workspace.closeTree(guest, treePath);
    },
  };
}

async function findSession(ports: Ports, build: BuildRow, taskKey: string): Promise<LoadedAttempt> {
  const { store } = ports;
  if (["queued", "running", "cancelling"].includes(build.status)) {
    const remedy = `wait for its end, or wavesmith cancel ${build.id}`;
    throw new WavesmithError("conflict", `build ${build.id} is ${build.status}: its agents use their sessions`, {
      remedy,
    });
  }
  const task = await store.tasks.find({ buildId: build.id, key: taskKey });
  if (task === null) throw new WavesmithError("not-found", `build ${build.id} has no task ${taskKey}`);
  const attempt = await store.attempts.find({ taskId: task.id }, { by: "number", descending: true });
  if (attempt === null) throw new WavesmithError("not-found", `task ${taskKey} has had no attempt yet`);
  const loaded = await loadAttempt(ports, attempt.id);
  if (attempt.outcome === "succeeded" && homesOf(loaded).length > 0) {
    throw new WavesmithError("not-found", `the session of task ${taskKey} was removed when the task succeeded`, {
      remedy: `look at its work: wavesmith shell ${build.id} --task ${taskKey}`,
    });
  }
  return loaded;
}

async function sessionStageOf(ports: Ports, loaded: LoadedAttempt, workspaceRoot: string) {
  const { attempt, build, task } = loaded;
  const { plan } = build;
  const spec = agentSpecFor(plan, attempt.role);
  const definition = task?.definition;
  const expiresAt = Math.ceil((ports.clock.now().getTime() + longestMs) / 60_000);
  return ports.agents.sessionStage({
    spec: spec === null || definition?.model == null ? spec : { ...spec, model: definition.model },
    run: definition?.run ?? null,
    role: attempt.role,
    pack: { prompt: "", taskFile: JSON.stringify({ task: { id: task?.key ?? "" } }) },
    images: [],
    treePath: attempt.treePath,
    taskFilePath: `${handoverPath(attempt.jobKey)}/task.json`,
    resultFilePath: `${handoverPath(attempt.jobKey)}/result.json`,
    workspaceRoot,
    env: { ...plan.env, ...definition?.env, ...ports.secrets.values(plan.secrets) },
    timeoutMs: longestMs,
    homePath: homeOf(loaded),
    modelToken: await ports.models.tokenFor("session", attempt.id, expiresAt),
    providerTools: providerToolsOf(build.network, plan),
    resultSchema: null,
    readOnly: isPlanner(loaded),
    answersPath: null,
  });
}
