import { dataOf } from "../../client/client.ts";
import type { MessageWay } from "../../coordinator/attempt/messages.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { endedBuildStatuses } from "../../domain/status.ts";
import type { Server } from "../context.ts";
import { deliveryParts } from "../parts/repository.ts";
import type { Asking } from "../server/ask-server.ts";
import { defined } from "../server/defined.ts";
import { sendablePlan } from "../server/sendable-plan.ts";
import { inOurWords } from "../server/server-errors.ts";
import type { BuildList, Builds, Changes, SteeredBuilds, SteeringVerbs } from "./port.ts";
import { watchServer } from "./server-watch.ts";

/** The builds of a server, which drives all of them. */
function lookedAt({ url }: Server, asking: Asking): Builds {
  const { client, sent } = asking;
  const { api } = client;
  const list = async (project: string | undefined, limit: number): Promise<BuildList> => {
    const query = { limit, ...(project === undefined ? {} : { project }) };
    const { items, nextCursor, spent } = await inOurWords(dataOf(api.GET("/api/v1/builds", { params: { query } })));
    return { builds: items, more: nextCursor !== null, spent } as unknown as BuildList;
  };
  return {
    place: url,
    async idsLike(id) {
      const { items } = await inOurWords(dataOf(api.GET("/api/v1/builds", { params: { query: { id } } })));
      return items.map((item) => item.id);
    },
    latest: async (project) => (await list(project, 1)).builds[0]?.id ?? null,
    list,
    async see(id) {
      const { view, repository, planFile } = await sent(id);
      return { view, repository, authority: null, planFile, interrupted: false, isServed: view.preview !== null };
    },
    watch: (buildId, from) => watchServer(asking, buildId, from),
    isDriven: async () => true,
    async status(id) {
      const { items } = await inOurWords(dataOf(api.GET("/api/v1/builds", { params: { query: { id } } })));
      return items.find((item) => item.id === id)?.status ?? (await sent(id)).view.build.status;
    },
    async jobs(id) {
      return (await inOurWords(dataOf(api.GET("/api/v1/builds/{id}/jobs", { params: { path: { id } } })))).items;
    },
    async output(id, job, after) {
      const params = { path: { id, job }, query: { after } };
      const { items } = await inOurWords(dataOf(api.GET("/api/v1/builds/{id}/jobs/{job}/output", { params })));
      return items.map(({ at, startsAt, text }) => ({ at: new Date(at), startsAt, text }));
    },
    async changes(id, of) {
      const params = { path: { id }, query: defined(of) };
      const changes = await inOurWords(dataOf(api.GET("/api/v1/builds/{id}/changes", { params })));
      return changes as unknown as Changes;
    },
    diff(id, of) {
      const params = { path: { id }, query: defined(of) };
      return inOurWords(dataOf(api.GET("/api/v1/builds/{id}/diff", { params, parseAs: "text" })));
    },
    async fetchResult({ build: { id, projectId } }, own) {
      const { receiveResult } = await deliveryParts();
      return receiveResult(own, projectId, await inOurWords(client.downloadResult(id)));
    },
  };
}

/** The builds of a server, for a command that changes them. */
export function serverBuilds(server: Server, asking: Asking): SteeredBuilds {
  return {
    ...lookedAt(server, asking),
    ...verbsOf(asking),
    requireDriver: async () => undefined,
    drive: async () => undefined,
    ahead: async (id) => (await asking.sent(id)).buildAhead,
  };
}

function verbsOf(asking: Asking): SteeringVerbs {
  const { api } = asking.client;
  const params = (id: string) => ({ path: { id } });
  return {
    async approve(id, body) {
      const answer = api.POST("/api/v1/builds/{id}/approve", { params: params(id), body });
      return ((await inOurWords(dataOf(answer))).pushed ?? null) as string | null;
    },
    async reject(id, body) {
      await inOurWords(dataOf(api.POST("/api/v1/builds/{id}/reject", { params: params(id), body })));
    },
    async answer(id, { number, ...body }) {
      const path = { id, n: number ?? ("open" as const) };
      return inOurWords(dataOf(api.POST("/api/v1/builds/{id}/questions/{n}/answer", { params: { path }, body })));
    },
    async cancel(id, reason) {
      if (endedBuildStatuses.includes((await asking.sent(id)).view.build.status)) return false;
      await inOurWords(dataOf(api.POST("/api/v1/builds/{id}/cancel", { params: params(id), body: { reason } })));
      return true;
    },
    async retry(id, how) {
      const answer = api.POST("/api/v1/builds/{id}/retry", { params: params(id), body: defined(how) });
      await inOurWords(dataOf(answer));
    },
    async resume(id, body) {
      if (endedBuildStatuses.includes((await asking.sent(id)).view.build.status)) return false;
      const answer = api.POST("/api/v1/builds/{id}/resume", { params: params(id), body });
      return inOurWords(dataOf(answer)).then(() => true, unlessDecisionIsDue);
    },
    async comment(id, { text, by, file, line, endLine, taskKey: task }) {
      const said = Object.entries({ file, line, endLine, task }).filter(([, value]) => value !== null);
      const body = { text, by, ...Object.fromEntries(said) };
      return inOurWords(dataOf(api.POST("/api/v1/builds/{id}/findings", { params: params(id), body })));
    },
    async tell(id, task, { text, by, urgent }) {
      const path = { id, task };
      const answer = api.POST("/api/v1/builds/{id}/tasks/{task}/messages", {
        params: { path },
        body: { text, by, now: urgent },
      });
      const { id: message, way } = (await inOurWords(dataOf(answer))) as unknown as { id: number; way: MessageWay };
      return { id: message, way };
    },
    async startPreview(id) {
      await inOurWords(dataOf(api.POST("/api/v1/previews/{id}/start", { params: params(id) })));
    },
    async rollback(id, wave) {
      await inOurWords(dataOf(api.POST("/api/v1/builds/{id}/rollback", { params: params(id), body: { wave } })));
    },
    async undoRollback(id) {
      const body = { undo: true } as const;
      await inOurWords(dataOf(api.POST("/api/v1/builds/{id}/rollback", { params: params(id), body })));
    },
    async editPlan(id, file, { interactive }) {
      const body = (await sendablePlan(file)) as never;
      const query = { interactive: interactive ? ("true" as const) : ("false" as const) };
      return inOurWords(dataOf(api.PUT("/api/v1/builds/{id}/plan", { params: { path: { id }, query }, body })));
    },
  };
}

/** Returns false for a build that waits for a decision, which cannot be resumed. */
function unlessDecisionIsDue(error: unknown): false {
  if (error instanceof WavesmithError && error.code === "conflict") return false;
  throw error;
}
