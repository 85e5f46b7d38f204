import type { EventData } from "../../domain/events/events.ts";
import { matchesAny } from "../../domain/paths/write-globs.ts";
import { standingFileName } from "../../domain/schedule.ts";
import { ForgeError } from "../../forge/port.ts";
import { requestBuild } from "../build/request/request-build.ts";
import type { Ports } from "../port.ts";
import { ofTenant } from "../schedule/standing-request.ts";
import { findAtForge, type PlaceAtForge } from "./at-forge.ts";
import { projectOfBranch } from "./find-project.ts";
import { isOwnWork } from "./own-work.ts";
import { isAnswer, readStandingText, requestAt, standingAt } from "./standing-at-forge.ts";
import { cancelWaiting } from "./waiting-builds.ts";

// ON1. Pushes may arrive late, twice or in any order, so a push only says that a branch has moved:
// we build the commit that is its head now, under an id made from branch and commit. One process at
// a time looks at a branch.
// ON2. A running build continues. One that has not started yet gives way to a newer commit.

export type Pushed = EventData<"forge/branch.pushed">;

/**
 * Starts the build that `on.push` of a branch's `wavesmith.yaml` asks for. Doing it twice starts no
 * second build. Returns what was done, in words.
 */
export async function startFromPush(ports: Ports, pushed: Pushed, defaultDriver: string): Promise<string> {
  const place = await findAtForge(ports, pushed.repository);
  if (place === null) return `${pushed.repository} is gone`;
  const start = () => startOfHead(ports, { place, pushed, defaultDriver });
  const answer = await ports.store.alone(`push/${place.repository.id}/${pushed.branch}`, start, { wait: true });
  return answer ?? "another process looks at the branch";
}

interface Start {
  readonly place: PlaceAtForge;
  readonly pushed: Pushed;
  readonly defaultDriver: string;
}

async function startOfHead(ports: Ports, start: Start): Promise<string> {
  const { place, pushed } = start;
  const sha = await findCommit(ports, start);
  if (sha === null) return "nothing to do: we put that commit there, or the branch is gone";
  try {
    const text = await readStandingText(place, sha);
    if (text === null) return `nothing to do: there is no ${standingFileName}`;
    const standing = await standingAt(ofTenant(ports, pushed.tenantId), place, { sha, text });
    const { branches } = standing.file;
    if (!matchesAny(branches, pushed.branch)) return `nothing to do: on.push does not name ${pushed.branch}`;
    return await requestOf(ports, start, { sha, request: standing.request });
  } catch (error) {
    if (!isAnswer(error)) throw error;
    await reportFault(ports, place, { sha, message: error.message, remedy: error.remedy });
    return `no build was started: ${error.message}`;
  }
}

/** The branch's head or, if that is our own work, the commit that was pushed below it. */
async function findCommit(ports: Ports, { place, pushed }: Start): Promise<string | null> {
  const { branch, by } = pushed;
  const head = await place.forge.readBranch(place.repository, branch);
  if (head === null) return null;
  for (const sha of new Set([head.sha, pushed.sha]))
    if (!(await isOwnWork(ports, place, { branch, sha, by: sha === pushed.sha ? by : null }))) return sha;
  return null;
}

async function requestOf(
  ports: Ports,
  { place: { repository }, pushed, defaultDriver }: Start,
  { sha, request }: { sha: string; request: Parameters<typeof requestAt>[1] },
): Promise<string> {
  const { branch, by, tenantId } = pushed;
  const at = { repository: repository.name, gitUrl: repository.gitUrl, branch, sha, request: null };
  const project = await projectOfBranch(ports.store, pushed, { ...at, defaultBranch: repository.defaultBranch });
  const { name: tenant } = await ports.store.tenants.get({ id: tenantId });
  const ofBranch = `forge-push:github:${repository.id}:${branch}:`;
  const id = `${ofBranch}${sha}`;
  const short = sha.slice(0, 12);
  const whose = sha === pushed.sha ? ` by ${by}` : "";
  const data = {
    ...requestAt(at, request),
    ...{ project, tenant, requestedBy: `the push of ${short} to ${branch}${whose}` },
    metadata: { origin: `github:${repository.name}:push:${branch}:${sha}` },
  };
  // Requested before, perhaps with other data: the project may have changed since.
  const known = await ports.store.builds.find({ eventId: id });
  const buildId = known?.id ?? (await requestBuild(ports, { id, data }, defaultDriver)).buildId;
  await cancelWaiting(ports, ofBranch, {
    newest: buildId,
    reason: `${short} was pushed to ${branch} before it started`,
  });
  return `build ${buildId} builds ${short}`;
}

/** Says at the commit why it is not built. If the forge does not let us, we only log it. */
async function reportFault(
  ports: Pick<Ports, "log">,
  { forge, repository }: PlaceAtForge,
  { sha, message, remedy }: { sha: string; message: string; remedy: string | null },
): Promise<void> {
  const lines = message.split("\n");
  const annotations = lines.flatMap((text) => {
    const line = Number(/^line (\d+): /.exec(text)?.[1]);
    return Number.isNaN(line) ? [] : [{ path: standingFileName, line, level: "failure" as const, message: text }];
  });
  const title = (lines.length > 1 ? lines.slice(1).join("; ") : message).slice(0, 200);
  const summary = [message, ...(remedy === null ? [] : [remedy])].map((text) => `\`\`\`\n${text}\n\`\`\``).join("\n\n");
  const report = {
    key: `${standingFileName}/${sha}`,
    name: `wavesmith/${standingFileName}`,
    title,
    summary,
    annotations,
  };
  await forge.ensureCheck({ repository, sha, conclusion: "failure", ...report }).catch((error: unknown) => {
    if (!(error instanceof ForgeError) || error.retryAfterMs !== null) throw error;
    ports.log.warn(`the faults of ${standingFileName} at ${sha} are not shown at ${repository.name}: ${error.message}`);
  });
}
