import { request } from "node:http";
import { join } from "node:path";
import { randomIds } from "../../src/domain/ids.ts";
import { providerNames } from "../../src/domain/models.ts";
import { createModels, type ModelsOptions } from "../../src/models/models.ts";
import type { Models } from "../../src/models/port.ts";
import type { Store } from "../../src/store/port.ts";

// Fixtures shared by the tests of models and their ledger: a build with one live attempt, and calls
// as an agent makes them.

export const modelProject = "proj";
export const modelBuild = "bld";
export const modelAttempt = { id: "att", fence: 3 } as const;

/** A running build with this budget, and one live attempt. */
export async function liveModelAttempt(
  store: Store,
  budget: { tokens: number | null; usd: number | null } = { tokens: null, usd: null },
): Promise<void> {
  const plan = { limits: { budget: { ...budget, wallClockMs: null } } } as never;
  await store.tenants.insertIfAbsent({ id: "ten", name: "t" });
  await store.projects.insertIfAbsent({ id: modelProject, tenantId: "ten", name: "p" });
  const base = { tenantId: "ten", projectId: modelProject, sandboxDriver: "local", network: "none" as const };
  await store.builds.insertIfAbsent({ id: modelBuild, eventId: "e", status: "running", plan, ...base });
  const { planVersion } = await store.builds.get({ id: modelBuild });
  await store.builds.update({ id: modelBuild }, { plan, planVersion: planVersion + 1 });
  await store.waves.insertIfAbsent({ id: "wave", buildId: modelBuild, number: 1, status: "running", baseSha: "0" });
  await store.attempts.insertIfAbsent({
    ...modelAttempt,
    buildId: modelBuild,
    waveId: "wave",
    kind: "fix",
    role: "fixer",
    number: 1,
    baseSha: "0",
    status: "running",
    treePath: "trees/x",
    ref: "refs/heads/x",
    jobKey: "job",
    paths: [],
  } as never);
}

export interface TestModels {
  readonly models: Models;
  readonly socket: string;
  /** The token of the live attempt. */
  readonly token: string;
  readonly warnings: string[];
  close(): Promise<void>;
}

/** The proxy for that project, in front of one server that acts as every provider. */
export async function openTestModels(
  { store, folder, url }: { store: Store; folder: string; url: string },
  more: Partial<ModelsOptions> = {},
): Promise<TestModels> {
  const warnings: string[] = [];
  const socket = join(folder, "model.sock");
  const models = createModels({
    store,
    ids: randomIds,
    now: () => new Date(),
    prices: [],
    cassette: null,
    patienceMs: 0,
    providers: providerNames.map((name) => ({ name, baseUrl: url, headers: { "x-api-key": "real-key" } })),
    warn: (message) => warnings.push(message),
    ...more,
  });
  models.listen(socket, modelProject);
  const token = await models.tokenFor("attempt", modelAttempt.id, modelAttempt.fence);
  return { models, socket, token, warnings, close: () => models.close() };
}

export interface Answered {
  /** 0: the connection ended before an answer came. */
  readonly status: number;
  readonly text: string;
}

/**
 * Makes one call as an agent does, and waits until somebody answers at the socket. Never rejects
 * once the call was taken.
 */
export const callModel = (socketPath: string, token: string, body: object): Promise<Answered> =>
  callModelAt({ socketPath, token, path: "/anthropic/v1/messages" }, body);

/** Makes the same call at any provider's path. */
export function callModelAt(
  at: { socketPath: string; token: string; path: string; headers?: Readonly<Record<string, string>> },
  body: object,
): Promise<Answered> {
  const { socketPath, path } = at;
  const headers = { authorization: `Bearer ${at.token}`, ...at.headers };
  return new Promise((resolve, reject) => {
    const dial = (): void => {
      let wasTaken = false;
      const outgoing = request({ socketPath, path, method: "POST", headers }, (reply) => {
        let text = "";
        reply.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        const over = (): void => resolve({ status: reply.statusCode ?? 0, text });
        reply.on("end", over).on("error", over);
      });
      outgoing.on("socket", (socket) => socket.on("connect", () => (wasTaken = true)));
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
        if (wasTaken) resolve({ status: 0, text: error.message });
        else if (["ENOENT", "ECONNREFUSED"].includes(error.code ?? "")) setTimeout(dial, 20);
        else reject(error);
      });
      outgoing.end(JSON.stringify(body));
    };
    dial();
  });
}
