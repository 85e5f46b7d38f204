import { WavesmithError } from "../../domain/errors.ts";
import { present } from "../../domain/known.ts";
import type { BuildRow, PreviewRow, StoreTransaction, WaveRow } from "../../store/port.ts";
import { eventsOf } from "../build-events.ts";
import type { Ports } from "../port.ts";

/**
 * Requests the preview of a finished or waiting build: of the wave that waits, or else of the last
 * wave that passed. Returns false if that one is shown already. Fails with `conflict` while the
 * build runs and when it has nothing to show.
 */
export async function requestPreview(ports: Ports, buildId: string): Promise<boolean> {
  return ports.store.transaction("preview-request", async (transaction) => {
    const build = await transaction.lockBuild(buildId);
    const { number: waveNumber, headSha } = await shownWave(transaction, build);
    const present = await transaction.previews.find({ buildId });
    if (present?.sha === headSha && (present.status === "starting" || present.status === "ready")) return false;
    // The job's key is new, so the event's id is too (W13).
    const jobKey = `preview-${buildId}-${ports.ids("job")}`;
    const row: Omit<PreviewRow, "buildId"> = {
      tenantId: build.tenantId,
      waveNumber,
      sha: headSha,
      status: "starting",
      port: 0,
      starts: 1,
      jobKey,
      sandboxId: ports.ids("sandbox"),
      requestedAt: ports.clock.now(),
      reason: null,
    };
    await transaction.previews.insertIfAbsent({ buildId: build.id, ...row });
    await transaction.previews.update({ buildId }, row);
    await eventsOf(transaction, build).deployPreview({ waveNumber, sha: headSha }, jobKey, 0);
    return true;
  });
}

async function shownWave(
  transaction: StoreTransaction,
  build: BuildRow,
): Promise<Pick<WaveRow, "number"> & { headSha: string }> {
  const { id, status, plan } = build;
  if (plan.preview === null) {
    throw new WavesmithError("conflict", `the plan of build ${id} has no preview`, {
      remedy: `add \`preview\` to the plan, then: wavesmith resume ${id} --plan EDITED`,
    });
  }
  if (status !== "completed" && status !== "failed" && status !== "waiting") {
    const remedy = status === "cancelled" ? `wavesmith retry ${id}` : `wavesmith status ${id}`;
    throw new WavesmithError("conflict", `build ${id} is ${status}: only a finished or waiting build has a preview`, {
      remedy,
    });
  }
  const waves = await transaction.waves.list(
    { buildId: id, status: ["passed", "waiting"] },
    { by: "number", descending: true },
  );
  const wave = waves.find(({ headSha }) => headSha !== null);
  if (wave === undefined) {
    throw new WavesmithError("conflict", `no wave of build ${id} has passed: there is nothing to show`, {
      remedy: `wavesmith status ${id}`,
    });
  }
  return { number: wave.number, headSha: present(wave.headSha, "wave.headSha") };
}
