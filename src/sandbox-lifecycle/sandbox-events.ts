import {
  type EventData,
  makeEvent,
  requestFacts,
  type SandboxEventFacts,
  type SandboxEventName,
} from "../domain/events/events.ts";
import type { SandboxState } from "../domain/sandbox/sandbox.ts";
import type { SandboxRow, StoreTransaction } from "../store/port.ts";
import { activeBuildOf } from "../store/queries/builds.ts";

/** The states of a project's one sandbox; removed ones stay for the record. */
export const presentStates: readonly SandboxState[] = ["wanted", "running", "stopped", "lost"];

/** The subject of an event about one boot: each boot starts once and ends once (W13). */
export const bootSubject = ({ id, bootId }: Pick<SandboxRow, "id" | "bootId">): string => `${id}/${bootId}`;

/** Emits an event about a sandbox, with the project's current build if there is one. */
export async function emitSandboxEvent<Name extends SandboxEventName>(
  transaction: StoreTransaction,
  sandbox: SandboxRow,
  event: {
    readonly name: Name;
    readonly subject: string;
    readonly facts: SandboxEventFacts<Name>;
  },
): Promise<void> {
  const { id: sandboxId, projectId, driver } = sandbox;
  const { tenantId } = await transaction.projects.get({ id: projectId });
  const build = await activeBuildOf(transaction, projectId);
  const during = build === null ? {} : { buildId: build.id, ...requestFacts(build) };
  const data = { tenantId, projectId, ...during, sandboxId, driver, ...event.facts } as EventData<Name>;
  await transaction.emit(makeEvent<SandboxEventName>(event.name, event.subject, 0, data));
}
