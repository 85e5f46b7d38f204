import { WavesmithError } from "../../domain/errors.ts";
import type { EventData } from "../../domain/events/events.ts";
import { type StandingRequest, standingFileName } from "../../domain/schedule.ts";
import { ForgeError } from "../../forge/port.ts";
import { requestBuild } from "../build/request/request-build.ts";
import type { Ports } from "../port.ts";
import { ofTenant } from "../schedule/standing-request.ts";
import { findAtForge, type PlaceAtForge, refuseOutsider, replyAtForge } from "./at-forge.ts";
import { projectOfBranch } from "./find-project.ts";
import { type AskedBranch, findAskedBranch } from "./offered-branch.ts";
import { isAnswer, readStandingText, requestAt, standingAt } from "./standing-at-forge.ts";

// LB1. Only people who may push can start a build with a label. Labels that no `wavesmith.yaml`
// names are nobody's business: they get no answer.
// LB2. One issue or request starts one build for each commit, however often it is labelled.

export type AddedLabel = EventData<"forge/label.added">;

interface Labelled {
  readonly place: PlaceAtForge;
  readonly added: AddedLabel;
  readonly eventId: string;
  readonly defaultDriver: string;
}

/**
 * Starts the build that `on.label` of a repository's `wavesmith.yaml` asks for, and says so below
 * the issue. Doing it twice starts no second build. Returns what was done, in words.
 */
export async function startFromLabel(
  ports: Ports,
  added: AddedLabel,
  { eventId, defaultDriver }: { eventId: string; defaultDriver: string },
): Promise<string> {
  const place = await findAtForge(ports, added.repository);
  if (place === null) return `${added.repository} is gone`;
  return start(ports, { place, added, eventId, defaultDriver });
}

async function start(ports: Ports, labelled: Labelled): Promise<string> {
  const { place, added, eventId } = labelled;
  const { repository, number, label, by } = added;
  const { asked, fault } = await findAsked(place, number);
  if (asked === null) return "nothing to do: the repository is empty";
  const text = await readStandingText(place, asked.sha);
  const nothing = `nothing to do: on.label of ${standingFileName} is not ${label}`;
  // A faulty file that does not even mention the label has nothing to do with it.
  if (text === null || !text.toLowerCase().includes(label.toLowerCase())) return nothing;
  const isAllowed = await place.forge.mayPush(place.repository, by);
  try {
    const standing = await standingAt(ofTenant(ports, added.tenantId), place, { sha: asked.sha, text });
    if (standing.file.label?.toLowerCase() !== label.toLowerCase()) return nothing;
    if (!isAllowed) {
      await refuseOutsider(ports, added, eventId);
      return `${by} may not push to ${repository}`;
    }
    if (fault !== null) throw fault;
    const answer = await requestOf(ports, labelled, { asked, request: standing.request });
    await replyAtForge(ports, { repository, number, key: `label/${asked.sha}`, text: answer });
    return answer;
  } catch (error) {
    if (!isAnswer(error)) throw error;
    const told = [`The label \`${label}\` started no build: ${error.message}`, error.remedy ?? ""].join("\n\n").trim();
    if (isAllowed) await replyAtForge(ports, { repository, number, key: `label/${asked.sha}`, text: told });
    return `no build was started: ${error.message}`;
  }
}

interface Found {
  readonly asked: AskedBranch | null;
  /** Why we cannot build the request's branch; then `asked` is the default branch. */
  readonly fault: WavesmithError | null;
}

async function findAsked(place: PlaceAtForge, number: number): Promise<Found> {
  try {
    return { asked: await findAskedBranch(place, number), fault: null };
  } catch (error) {
    if (!(error instanceof WavesmithError) || error instanceof ForgeError) throw error;
    const { defaultBranch: branch } = place.repository;
    const head = await place.forge.readBranch(place.repository, branch);
    return { asked: head === null ? null : { branch, sha: head.sha, request: null }, fault: error };
  }
}

async function requestOf(
  ports: Ports,
  { place: { repository }, added, defaultDriver }: Labelled,
  { asked, request }: { asked: AskedBranch; request: StandingRequest },
): Promise<string> {
  const { number, label, by, tenantId } = added;
  const { branch, sha } = asked;
  const at = { repository: repository.name, gitUrl: repository.gitUrl, ...asked };
  const project = await projectOfBranch(ports.store, added, { ...at, defaultBranch: repository.defaultBranch });
  const { name: tenant } = await ports.store.tenants.get({ id: tenantId });
  const id = `forge-label:github:${repository.id}:${number}:${label.toLowerCase()}:${sha}`;
  const data = {
    ...requestAt(at, request),
    ...{ project, tenant, requestedBy: `${by}'s label ${label} on #${number}` },
    metadata: { origin: `github:${repository.name}:label:${number}:${sha}` },
  };
  const known = await ports.store.builds.find({ eventId: id });
  const buildId = known?.id ?? (await requestBuild(ports, { id, data }, defaultDriver)).buildId;
  const waits =
    request.brief === undefined || request.yes === true
      ? ""
      : " Its plan waits for `/wavesmith approve` in a comment here.";
  return `Build ${buildId} has started for \`${label}\`, from ${sha.slice(0, 12)} of ${branch}. Its work comes as a request into ${branch}.${waits}`;
}
