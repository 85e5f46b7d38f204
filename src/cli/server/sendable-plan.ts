import { rawPlan, readPlan, writtenPlan } from "../parts.ts";

/**
 * Reads a plan file for a server, whose environment has the values of the secrets: whether one is
 * missing is for the server to say.
 */
export async function readPlanForServer(file: string) {
  const value = await rawPlan(file).catch(() => null); // `readPlan` says why it cannot be read.
  const { secrets } = (value ?? {}) as { readonly secrets?: unknown };
  const names = Array.isArray(secrets) ? secrets.map(String) : [];
  return readPlan(file, Object.fromEntries(names.map((name) => [name, "on the server"])));
}

/**
 * Returns the plan of a file without faults as a value that needs no other file. Its source is sent
 * separately.
 */
export async function sendablePlan(file: string): Promise<Record<string, unknown>> {
  const { plan } = await readPlanForServer(file);
  return writtenPlan({ ...plan!, source: { kind: "empty" } });
}
