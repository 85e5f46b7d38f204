import type { EventData } from "../../domain/events.ts";
import type { SandboxState } from "../../domain/sandbox.ts";
import { activeBuildStatuses } from "../../domain/status.ts";
import type { SandboxRow, StoreTransaction } from "../../store/port.ts";
import { eventId } from "../names.ts";
import type { Ports } from "../port.ts";

/** The states of a project's one sandbox; removed ones stay for the record. */
export const presentStates: readonly SandboxState[] = ["wanted", "running", "stopped", "lost"];

type SandboxEventName = `sandbox/${"created" | "started" | "stopped" | "lost" | "restored"}`;
/** What `tellSandbox` adds to the data of every event of a sandbox. */
type SandboxBase = EventData<"sandbox/created">;

/** The subject of an event about one boot: each boot starts once and ends once (W13). */
export const bootSubject = ({ id, bootId }: Pick<SandboxRow, "id" | "bootId">): string => `${id}/${bootId}`;

/** Emits an event about a sandbox, with the project's current build if there is one. */
export async function tellSandbox<Name extends SandboxEventName>(
  transaction: StoreTransaction,
  sandbox: SandboxRow,
  event: {
    readonly name: Name;
    readonly subject: string;
    readonly facts: Omit<EventData<Name>, keyof SandboxBase>;
  },
): Promise<void> {
  const { id: sandboxId, projectId, driver } = sandbox;
  const { tenantId } = await transaction.projects.get({ id: projectId });
  const build = await transaction.builds.find({ projectId, status: activeBuildStatuses });
  const buildId = build?.id ?? null;
  const during = build === null ? {} : { buildId: build.id };
  const who = build === null || build.requestedBy === null ? {} : { requestedBy: build.requestedBy };
  await transaction.emit({
    name: event.name,
    id: eventId(event.name, event.subject, 0),
    projectId,
    buildId,
    data: { tenantId, projectId, ...during, ...who, sandboxId, driver, ...event.facts },
  });
}

/**
 * Runs `work` while nobody else starts, stops or replaces this project's sandbox. Without `wait` it
 * returns null and does nothing when somebody does.
 */
export const withSandboxAlone = <Result>(
  ports: Pick<Ports, "store">,
  projectId: string,
  work: () => Promise<Result>,
  { wait } = { wait: true },
): Promise<Result | null> => ports.store.alone(`sandbox ${projectId}`, work, { wait });

/**
 * The same lock for the whole volume, for packing and replacing it. Take it before the sandbox's
 * lock, never inside.
 */
export const withVolumeAlone = <Result>(
  ports: Pick<Ports, "store">,
  projectId: string,
  work: () => Promise<Result>,
  { wait } = { wait: true },
): Promise<Result | null> => ports.store.alone(`volume ${projectId}`, work, { wait });
