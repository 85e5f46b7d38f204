import { projectIdFor } from "../coordinator/build/request/project.ts";
import type { Ports } from "../coordinator/port.ts";
import { WavesmithError } from "../domain/errors.ts";
import { shellWord } from "../domain/shell-word.ts";
import type { SandboxRow } from "../store/port.ts";

const present = ["wanted", "running", "stopped", "lost"] as const;

export const noSandboxOf = (name: string): WavesmithError =>
  new WavesmithError("not-found", `there is no sandbox of ${name}`, { remedy: "see wavesmith sandbox ls" });

export interface WhichSandbox {
  /** The name of the tenant whose projects are meant. */
  readonly tenant: string;
  /** `volume`: also a removed one whose volume was kept. `record`: also one that is gone. */
  readonly evenWith?: "volume" | "record";
}

/**
 * Finds a sandbox by its id, or by its project's name or id. Fails with `not-found`. `store` shows
 * what the caller may see.
 */
export async function getSandbox(
  ports: Pick<Ports, "store" | "driver">,
  name: string,
  which: WhichSandbox,
): Promise<SandboxRow> {
  const sandbox = await findSandbox(ports, name, which);
  if (sandbox !== null) return sandbox;
  // `sandbox ls` still lists it.
  const kept = await findSandbox(ports, name, { ...which, evenWith: "volume" });
  if (kept === null) {
    throw noSandboxOf(name);
  }
  throw new WavesmithError("not-found", `the sandbox of ${name} was removed; only its volume is kept`, {
    remedy: `wavesmith sandbox start ${shellWord(name)}`,
  });
}

async function findSandbox(
  { store, driver }: Pick<Ports, "store" | "driver">,
  name: string,
  { tenant, evenWith }: WhichSandbox,
): Promise<SandboxRow | null> {
  const named = await store.sandboxes.find({ id: name });
  const projectId = named === null ? [name, projectIdFor(tenant, name)] : [named.projectId];
  const live = await store.sandboxes.find({ projectId, state: present });
  if (live !== null) return live;
  const last = await store.sandboxes.find({ projectId, state: "removed" }, { by: "createdAt", descending: true });
  if (last === null || evenWith === "record") return last;
  if (evenWith !== "volume") return null;
  const infos = await driver(last.driver).list();
  return infos.some((info) => info.projectId === last.projectId && info.volumePath !== null) ? last : null;
}
