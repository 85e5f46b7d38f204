import { z } from "@hono/zod-openapi";
import { answerQuestion } from "../../coordinator/attempt/questions.ts";
import { resumeBuild } from "../../coordinator/build/resume-build.ts";
import { retryBuild } from "../../coordinator/build/retry-build.ts";
import { rollbackBuild } from "../../coordinator/build/rollback-build.ts";
import { requestCancel } from "../../coordinator/build/stop/cancel-build.ts";
import { undoRollback } from "../../coordinator/build/undo-rollback.ts";
import { approveWave, rejectWave } from "../../coordinator/wave/decide-wave.ts";
import { WavesmithError } from "../../domain/errors.ts";
import { buildReply } from "./build-replies.ts";
import { getBuild, showStatus } from "./builds.ts";
import { type ApiContext, type Endpoint, endpoint, idParams, personName, sendSoon } from "./endpoint.ts";

const number = z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER);
/** A question's number, or `open` for the only open one. */
const answerParams = idParams.extend({ n: z.union([z.literal("open"), number]) });
/** The wave and head that a decision is about; one that comes after they changed does nothing. */
const about = z.strictObject({ waveNumber: z.number().int().min(1), sha: z.string().max(100).nullable() }).optional();
/** Another model or agent for the remaining work. */
const otherAgent = { model: z.string().max(300).optional(), agent: z.string().max(2_000).optional() };

/** Whether a person answers agents' questions from now on; absent: as before. */
const answering = { interactive: z.boolean().optional() };

const rollbackBody = z.union([
  z.strictObject({ wave: z.number().int().min(0).max(1_000_000) }),
  z.strictObject({ undo: z.literal(true) }),
]);

type Said = { readonly by: string; readonly about?: z.infer<typeof about> };
const decisionOf = ({ by, about }: Said) => (about === undefined ? { by } : { by, about });

interface Steering<Body extends z.ZodType> {
  readonly summary: string;
  readonly body: Body;
  readonly act: (id: string, said: z.infer<Body>) => Promise<unknown>;
}

/** Returns what makes the endpoint of a word; it answers with the build as it is afterwards. */
const steeringOf =
  (app: ApiContext["app"]) =>
  <Body extends z.ZodType>(word: string, { summary, body, act }: Steering<Body>): Endpoint =>
    endpoint(`post /builds/{id}/${word}`, {
      summary,
      params: idParams,
      body,
      reply: buildReply,
      status: 202,
      async handle(call) {
        const { id } = await getBuild(app, call.params.id);
        const more = await act(id, call.body);
        sendSoon(app);
        return { body: { ...(await showStatus(app, id)), ...(more as object | undefined) } };
      },
    });

export function steeringEndpoints({ app }: ApiContext): Endpoint[] {
  const { allTenants: ports } = app;
  const steer = steeringOf(app);
  return [
    steer("cancel", {
      summary: "Cancel a build and keep its work",
      body: z.strictObject({ reason: z.string().trim().min(1).max(2_000).default("cancelled by the API") }),
      async act(id, { reason }) {
        if (await requestCancel(ports, id, reason)) return;
        const { status } = await getBuild(app, id);
        throw new WavesmithError("conflict", `build ${id} is ${status} already`);
      },
    }),
    steer("retry", {
      summary: "Start new attempts for what failed",
      body: z.strictObject({ ...otherAgent, ...answering, unchanged: z.boolean().default(false) }),
      act: (id, said) => retryBuild(ports, id, said),
    }),
    steer("resume", {
      summary: "Continue a build that waits for no decision, such as after a rollback",
      body: z.strictObject(answering),
      async act(id, said) {
        if (await resumeBuild(ports, id, said)) return;
        const { status } = await getBuild(app, id);
        throw new WavesmithError("conflict", `build ${id} is ${status}: it is not waiting to be resumed`);
      },
    }),
    steer("approve", {
      summary: "Approve the wave or the drafted plan that waits",
      body: z.strictObject({ by: personName, about }),
      act: async (id, said) => ({ pushed: await approveWave(ports, id, decisionOf(said)) }),
    }),
    steer("reject", {
      summary: "Reject the wave or the drafted plan that waits; a retry passes the reason on",
      body: z.strictObject({ by: personName, about, reason: z.string().trim().min(1).max(20_000) }),
      act: (id, said) => rejectWave(ports, id, { ...decisionOf(said), reason: said.reason }),
    }),
    steer("rollback", {
      summary: "Move main back to the end of a wave (0 is where the build began), or undo the last rollback",
      body: rollbackBody,
      act: (id, said) => ("undo" in said ? undoRollback(ports, id) : rollbackBuild(ports, id, said.wave)),
    }),
    answerEndpoint(app),
  ];
}

const answerEndpoint = (app: ApiContext["app"]): Endpoint =>
  endpoint("post /builds/{id}/questions/{n}/answer", {
    summary: "Allow or deny what an agent asked",
    params: answerParams,
    body: z.strictObject({ answer: z.enum(["allow", "deny"]), by: personName }),
    reply: z.looseObject({ id: z.number(), text: z.string(), answer: z.string() }),
    async handle({ params, body }) {
      const build = await getBuild(app, params.id);
      const given = { number: params.n === "open" ? null : params.n, ...body };
      const { id, text, answer, answeredBy, answeredAt } = await answerQuestion(app.ports, build, given);
      return { body: { id, text, answer, answeredBy, answeredAt } };
    },
  });
