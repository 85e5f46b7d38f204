import { z } from "@hono/zod-openapi";
import { messagesJson } from "../../api/messages.ts";
import { loadAttempt } from "../../coordinator/attempt/attempt.ts";
import { packForAttempt } from "../../coordinator/attempt/attempt-context.ts";
import { tellTask } from "../../coordinator/attempt/messages.ts";
import { WavesmithError } from "../../domain/errors.ts";
import type { ServedApp } from "../port.ts";
import { moment } from "./build-replies.ts";
import { getBuild, readBuild } from "./builds.ts";
import {
  type ApiContext,
  cursorValue,
  type Endpoint,
  endpoint,
  idParams,
  page,
  pageOf,
  pageQuery,
  personName,
} from "./endpoint.ts";
import { encodeEvents, eventStream, lastEventId, type Reader } from "./event-stream.ts";

type Store = ServedApp["ports"]["store"];
type TaskRow = Awaited<ReturnType<Store["tasks"]["get"]>>;

const taskParams = idParams.extend({ task: z.string().min(1).max(200) });
const taskReply = z
  .looseObject({
    id: z.string(),
    title: z.string(),
    agent: z.string(),
    dependsOn: z.array(z.string()),
    status: z.string(),
    attempts: z.number(),
    reason: z.string().nullable(),
    summary: z.string().nullable(),
    commit: z.string().nullable(),
    changedFiles: z.array(z.string()).nullable(),
  })
  .openapi("Task");
const attemptReply = z.object({
  number: z.number(),
  status: z.string(),
  outcome: z.string().nullable(),
  reason: z.string().nullable(),
  commit: z.string().nullable(),
  startedAt: moment,
  endedAt: moment,
});
const logQuery = z.strictObject({
  offset: z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  attempt: z.coerce.number().int().min(1).max(1_000_000).optional(),
  follow: z.enum(["true", "false"]).default("false"),
});
const promptQuery = z.strictObject({ attempt: z.coerce.number().int().min(1).max(1_000_000).optional() });
const messageBody = z.strictObject({
  text: z.string().trim().min(1).max(20_000),
  by: personName,
  now: z.boolean().default(false),
});
const messageReply = z
  .looseObject({ id: z.number(), by: z.string(), text: z.string(), urgent: z.boolean(), createdAt: z.string() })
  .openapi("Message");
const listedMessage = messageReply
  .extend({ state: z.enum(["delivered", "waiting", "missed"]) })
  .openapi("ListedMessage");
const logReply = z
  .looseObject({ attempt: z.number(), text: z.string(), nextOffset: z.number(), ended: z.boolean() })
  .openapi("Log");

const show = ({ key, definition, agent, status, attempts, reason, summary, commitSha, ...row }: TaskRow) => {
  const { title, dependsOn } = definition;
  const { changedFiles, conflicts, endedAt } = row;
  return {
    ...{ id: key, title, agent, dependsOn, status, attempts, reason, summary },
    ...{ commit: commitSha, changedFiles, conflicts, endedAt },
  };
};

async function findTask({ ports: { store } }: ServedApp, buildId: string, key: string): Promise<TaskRow> {
  const task = await store.tasks.find({ buildId, key });
  if (task !== null) return task;
  throw new WavesmithError("not-found", `build ${buildId} has no task ${key}`, {
    remedy: `GET /api/v1/builds/${buildId}/tasks lists them`,
  });
}

/** Returns the attempt with this number; undefined: the last one. */
async function findAttempt(app: ServedApp, buildId: string, key: string, wanted: number | undefined) {
  const task = await findTask(app, buildId, key);
  const number = wanted === undefined ? {} : { number: wanted };
  const found = await app.ports.store.attempts.find({ taskId: task.id, ...number }, { by: "number", descending: true });
  if (found === null) throw new WavesmithError("not-found", `task ${task.key} has no such attempt yet`);
  return found;
}

export function taskEndpoints(api: ApiContext): Endpoint[] {
  const { app } = api;
  const { store } = app.ports;
  return [
    endpoint("get /builds/{id}/tasks", {
      summary: "List the tasks of a build, in the order of its plan",
      params: idParams,
      query: pageQuery,
      reply: pageOf(taskReply),
      async handle({ params, query: { cursor, limit } }) {
        const { id: buildId } = await getBuild(app, params.id);
        const order = { by: "position" as const, limit: limit + 1, ...cursorValue(cursor, "number") };
        const rows = await store.tasks.list({ buildId }, order);
        return { body: page(rows, { limit, cursorOf: ({ position }) => position, show }) };
      },
    }),
    endpoint("get /builds/{id}/tasks/{task}", {
      summary: "Show a task with its attempts",
      params: taskParams,
      reply: taskReply.extend({ eachAttempt: z.array(attemptReply) }).openapi("TaskDetail"),
      async handle({ params }) {
        const { id: buildId } = await getBuild(app, params.id);
        const task = await findTask(app, buildId, params.task);
        const attempts = await store.attempts.list({ taskId: task.id }, { by: "number" });
        const eachAttempt = attempts.map(({ number, status, outcome, reason, commitSha, startedAt, endedAt }) => ({
          ...{ number, status, outcome, reason, commit: commitSha, startedAt, endedAt },
        }));
        return { body: { ...show(task), eachAttempt } };
      },
    }),
    endpoint("get /builds/{id}/tasks/{task}/messages", {
      summary: "List what people told the agent of a task",
      params: taskParams,
      reply: z.looseObject({ items: z.array(listedMessage) }),
      async handle({ params }) {
        const view = await readBuild(app, params.id);
        const task = await findTask(app, view.build.id, params.task);
        return { body: { items: messagesJson(view, task.key) } };
      },
    }),
    endpoint("post /builds/{id}/tasks/{task}/messages", {
      summary: "Say something to the agent of a task; now=true interrupts its turn",
      params: taskParams,
      body: messageBody,
      reply: messageReply,
      status: 201,
      async handle({ params, body: { text, by, now } }) {
        const build = await getBuild(app, params.id);
        const { message, way } = await tellTask(app.ports, build.id, params.task, { text, by, urgent: now });
        const { id, createdAt } = message;
        return { body: { id, text: message.text, by, urgent: now, createdAt, way } };
      },
    }),
    ...attemptEndpoints(api),
  ];
}

function attemptEndpoints(api: ApiContext): Endpoint[] {
  const { app } = api;
  const { store } = app.ports;
  return [
    endpoint("get /builds/{id}/tasks/{task}/prompt", {
      summary: "Read what an attempt's agent is told, by default the last one's; memory is as it is now",
      params: taskParams,
      query: promptQuery,
      reply: z.looseObject({ attempt: z.number(), prompt: z.string() }),
      async handle({ params, query }) {
        const { id: buildId } = await getBuild(app, params.id);
        const { id, number: attempt } = await findAttempt(app, buildId, params.task, query.attempt);
        const { prompt } = await packForAttempt(app.ports, await loadAttempt(app.ports, id));
        return { body: { attempt, prompt } };
      },
    }),
    endpoint("get /builds/{id}/tasks/{task}/logs", {
      summary: "Read an attempt's output from an offset in bytes; follow=true sends it as server-sent events",
      params: taskParams,
      query: logQuery,
      reply: logReply,
      async handle({ params, query, header, gone, isAllowed }) {
        const { id: buildId } = await getBuild(app, params.id);
        const found = await findAttempt(app, buildId, params.task, query.attempt);
        const from = lastEventId(header("last-event-id")) ?? query.offset;
        const log = { jobKey: found.jobKey, attempt: found.number };
        if (query.follow === "true") return followLog(api, log, { from, reader: { gone, isAllowed } });
        return { body: await readLog(store, log, from) };
      },
    }),
  ];
}

interface Log {
  readonly jobKey: string;
  readonly attempt: number;
}

const chunksAtOnce = 16;

/** Reads what comes after an offset in bytes; one inside a chunk cuts it there. */
async function readLog(store: Store, { jobKey, attempt }: Log, offset: number) {
  // The state before the output, so that nothing is missed when the job ends in between.
  const job = await store.jobs.find({ key: jobKey });
  const before = { by: "startsAt", descending: true, after: offset, limit: 1 } as const;
  const [cut] = offset === 0 ? [] : await store.logChunks.list({ jobKey }, before);
  const later = { by: "startsAt", after: offset - 1, limit: chunksAtOnce + 1 } as const;
  const stored = job?.outputOffset ?? 0;
  const rest = (await store.logChunks.list({ jobKey }, later)).filter(({ startsAt }) => startsAt < stored);
  const chunks = rest.slice(0, chunksAtOnce);
  const following = rest[chunksAtOnce];
  const end = following?.startsAt ?? Math.max(offset, stored);
  const partEnd = rest[0]?.startsAt ?? end;
  const part = cut === undefined || partEnd <= offset ? "" : bytesFrom(cut.text, offset - cut.startsAt);
  const text = `${part}${chunks.map((chunk) => chunk.text).join("")}`;
  return { attempt, offset, nextOffset: end, ended: job?.status === "ended" && following === undefined, text };
}

const bytesFrom = (text: string, skipped: number): string => Buffer.from(text).subarray(skipped).toString();

function followLog(api: ApiContext, log: Log, { from, reader }: { from: number; reader: Reader }): Response {
  const { store } = api.app.ports;
  let offset = from;
  let isOver = false;
  return eventStream(api, reader, () => ({
    async next() {
      if (isOver) return { bytes: encodeEvents([]), hasMore: false, isOver };
      const { text, nextOffset, ended, ...rest } = await readLog(store, log, offset);
      offset = nextOffset;
      isOver = ended;
      const said = text === "" ? [] : [{ id: offset, event: "log", data: { ...rest, text } }];
      const end = ended ? [{ id: offset, event: "end", data: { attempt: rest.attempt } }] : [];
      return { bytes: encodeEvents([...said, ...end]), hasMore: false, isOver };
    },
    stop: () => undefined,
  }));
}
