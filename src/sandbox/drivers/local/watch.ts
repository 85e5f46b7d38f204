import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { SandboxChange } from "../../port.ts";
import type { LocalDriverOptions } from "./launch.ts";
import { isRecordRunning, listRecords, type SandboxRecord } from "./record.ts";

const lookMs = 1_000;

type Seen = ReadonlyMap<string, { readonly record: SandboxRecord; readonly boot: string | null }>;

/** Yields the changes between one look at the records and the next. */
export async function* watchRecords(options: LocalDriverOptions, signal: AbortSignal): AsyncGenerator<SandboxChange> {
  for (let before = readRecordedStates(options); !signal.aborted; ) {
    await delay(lookMs, undefined, { signal }).catch(() => undefined); // Aborted: the loop ends.
    if (signal.aborted) return;
    const now = readRecordedStates(options);
    yield* changes(before, now);
    before = now;
  }
}

function readRecordedStates({ dataDir, installationId }: LocalDriverOptions): Seen {
  const records = listRecords(join(dataDir, "sandboxes")).filter((record) => record.installationId === installationId);
  return new Map(
    records.map((record) => [record.projectId, { record, boot: isRecordRunning(record) ? record.bootId : null }]),
  );
}

function changes(before: Seen, now: Seen): SandboxChange[] {
  const found: SandboxChange[] = [];
  const report = ({ projectId, sandboxId }: SandboxRecord, change: SandboxChange["change"]) =>
    found.push({ projectId, sandboxId, change });
  for (const [projectId, was] of before) {
    const is = now.get(projectId);
    if (is === undefined) report(was.record, "removed");
    else if (was.boot !== null && is.boot !== was.boot) report(was.record, "ended");
  }
  for (const [projectId, { record, boot }] of now) {
    if (boot !== null && boot !== before.get(projectId)?.boot) report(record, "started");
  }
  return found;
}
