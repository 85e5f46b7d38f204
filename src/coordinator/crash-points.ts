import type { ForgeName } from "../domain/forge.ts";
import type { SandboxDriver, SandboxEndpoint } from "../sandbox/port.ts";
import { workspaceCrashPoints } from "../workspace/port.ts";
import type { Ports } from "./port.ts";

// Crash points: the places before and after each commit, and before and after each call that
// changes something outside the database. Tests kill the process or act there. The engine has its
// own.

/** Called at every crash point; a test kills the process there, throws, or does something else. */
export type CrashPoint = (name: string) => void | Promise<void>;

/** A build's calls that change something outside this process. */
const calls = {
  workspace: ["prepare", "syncVolume", "openTree", "closeTree", "keepTree", "restorePaths", "join"],
  guest: ["writeFile", "remove", "startJob", "cancelJob", "forgetJob", "exec", "unpack", "allocatePorts"],
  driver: ["ensure", "stop", "remove", "pack", "restore"],
  snapshots: ["put", "remove"],
  events: ["send"],
  forge: ["ensureRepository", "pushBranch", "ensureRequest", "ensureComment", "ensureCheck", "mergeRequest"],
} as const;

/**
 * Names for the uses of `moveRef`, because each kind of ref moves at a different step of a wave.
 */
const refKinds = { "refs/heads/main": "main", "refs/tags/": "restore-point", "refs/rescue/": "rescue", "": "wave" };
const refKind = (ref: string): string => Object.entries(refKinds).find(([prefix]) => ref.startsWith(prefix))![1];

/** The operations' transactions; the store adds `.before-commit` and `.after-commit`. */
const transactions = [
  "add-comment",
  "admit-build",
  "after-stop",
  "ask-again",
  "ask-gate-agent",
  "ask-pull-request",
  "ask-second-look",
  "change-file",
  "claim-attempt",
  "claim-gate",
  "create-key",
  "deliver-wave",
  "edit-plan",
  "end-job",
  "fail-build",
  "fail-delivery",
  "fail-preview",
  "finish-gate",
  "gate-without-job",
  "join-wave",
  "limit-tenant",
  "lose-attempt",
  "make-project",
  "over-budget",
  "prepare-build",
  "preview-intend",
  "preview-request",
  "preview-wake",
  "promote",
  "repeat-gate",
  "request-build",
  "request-cancel",
  "resend-request",
  "resume-build",
  "reserve-model-call",
  "retry-build",
  "rollback-build",
  "run-added-checks",
  "sandbox-boot",
  "sandbox-idle",
  "sandbox-intend",
  "sandbox-lost",
  "sandbox-remove",
  "sandbox-restore",
  "sandbox-restored",
  "sandbox-stop",
  "settle-attempt",
  "settle-check",
  "settle-model-call",
  "settle-schedule",
  "settle-unstarted",
  "start-held-back",
  "start-wave",
  "store-build",
  "store-output",
  "take-closed",
  "take-delivery",
  "take-events",
  "take-finding",
  "take-review",
  "take-thread",
  "tell-task",
  "undo-rollback",
  "wave-approved",
  "wave-rejected",
] as const;

/** Commits outside the operations' transactions: single statements, the outbox, leases. */
const commits = [
  "attempts.update",
  "jobs.insertIfAbsent",
  "jobs.update",
  "modelCalls.remove",
  "modelCalls.update",
  "previews.update",
  "pullRequests.update",
  "sandboxes.update",
  "snapshots.insert",
  "snapshots.update",
  "outbox.drain",
  "leases.take",
  "leases.renew",
  "leases.release",
] as const;

const beforeAndAfter = (names: readonly string[], suffix = ""): string[] =>
  names.flatMap((name) => [`${name}.before${suffix}`, `${name}.after${suffix}`]);

/** The names of all crash points except the engine's. */
export const crashPoints: readonly string[] = [
  ...beforeAndAfter([...transactions, ...commits], "-commit"),
  ...Object.entries(calls).flatMap(([part, methods]) => beforeAndAfter(methods.map((method) => `${part}.${method}`))),
  ...beforeAndAfter(Object.values(refKinds).map((kind) => `workspace.moveRef.${kind}`)),
  ...workspaceCrashPoints,
];

/** Adds a crash point to the ports before and after every call that changes something outside. */
export function withCrashPoints(ports: Ports, crashPoint: CrashPoint): Ports {
  const endpoint = (found: SandboxEndpoint): SandboxEndpoint => ({
    ...found,
    guest: around("guest", found.guest, calls.guest, crashPoint),
  });
  const driver = (name: string): SandboxDriver => {
    const made = around("driver", ports.driver(name), calls.driver, crashPoint);
    return {
      ...made,
      ensure: async (spec) => endpoint(await made.ensure(spec)),
      find: async (projectId) => {
        const found = await made.find(projectId);
        return found === null ? null : endpoint(found);
      },
    };
  };
  const { moveRef } = ports.workspace;
  const workspace = {
    ...around("workspace", ports.workspace, calls.workspace, crashPoint),
    moveRef: (...args: Parameters<typeof moveRef>) =>
      between(`workspace.moveRef.${refKind(args[1])}`, crashPoint, () => moveRef(...args)),
  };
  const snapshots = around("snapshots", ports.snapshots, calls.snapshots, crashPoint);
  const forges = {
    ...ports.forges,
    forge: (name: ForgeName) => around("forge", ports.forges.forge(name), calls.forge, crashPoint),
  };
  return {
    ...ports,
    forges,
    workspace,
    driver,
    snapshots,
    events: around("events", ports.events, calls.events, crashPoint),
  };
}

async function between<Result>(name: string, crashPoint: CrashPoint, call: () => Promise<Result>): Promise<Result> {
  await crashPoint(`${name}.before`);
  const result = await call();
  await crashPoint(`${name}.after`);
  return result;
}

function around<Port extends object>(
  part: string,
  port: Port,
  methods: readonly (keyof Port & string)[],
  crashPoint: CrashPoint,
): Port {
  const wrapped = methods.map((method) => {
    const call = port[method] as (...args: unknown[]) => Promise<unknown>;
    return [method, (...args: unknown[]) => between(`${part}.${method}`, crashPoint, () => call(...args))];
  });
  return { ...port, ...Object.fromEntries(wrapped) };
}
