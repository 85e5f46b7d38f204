import { buildAhead } from "../../coordinator/build/read-build.ts";
import type { Session } from "../data/session.ts";
import { openStore, readPlan, requireDriver } from "../parts.ts";
import { directoryBuilds } from "./directory.ts";
import type { SteeredBuilds, SteeringVerbs } from "./port.ts";

/** The builds of a data directory, for a command that changes or drives them. */
export function steeredDirectory(session: Session, environment: Readonly<Record<string, string | undefined>>) {
  const { app, config } = session;
  const { store } = app;
  let look: ReturnType<typeof openStore> | null = null;
  const database = async () => {
    look ??= openStore(config, "steer");
    return (await look).database;
  };
  const builds: SteeredBuilds = {
    ...directoryBuilds({ config, store, database }),
    requireDriver: (name) => requireDriver(config, name),
    drive: ({ projectId }) => session.drive(projectId),
    async ahead(buildId) {
      const build = await store.builds.find({ id: buildId });
      return build === null ? null : ((await buildAhead(store, build))?.id ?? null);
    },
    ...verbsOf(session, environment),
  };
  return { builds, close: async () => (await look)?.close() };
}

/** Each verb loads the code of its operation when it is used, because a command needs only one. */
function verbsOf(
  { app: { store, ports } }: Session,
  environment: Readonly<Record<string, string | undefined>>,
): SteeringVerbs {
  return {
    async approve(buildId, decision) {
      const { approveWave } = await import("../../coordinator/wave/decide-wave.ts");
      return approveWave(ports, buildId, decision);
    },
    async reject(buildId, decision) {
      const { rejectWave } = await import("../../coordinator/wave/decide-wave.ts");
      await rejectWave(ports, buildId, decision);
    },
    async answer(buildId, given) {
      const { answerQuestion } = await import("../../coordinator/attempt/questions.ts");
      return answerQuestion(ports, await store.builds.get({ id: buildId }), given);
    },
    async cancel(buildId, reason) {
      const { requestCancel } = await import("../../coordinator/build/stop/cancel-build.ts");
      return requestCancel(ports, buildId, reason);
    },
    async retry(buildId, how) {
      const { retryBuild } = await import("../../coordinator/build/retry-build.ts");
      await retryBuild(ports, buildId, how);
    },
    async resume(buildId, how) {
      const { resumeBuild } = await import("../../coordinator/build/resume-build.ts");
      return resumeBuild(ports, buildId, how);
    },
    async startPreview(buildId) {
      const { requestPreview } = await import("../../coordinator/preview/request-preview.ts");
      await requestPreview(ports, buildId);
    },
    async rollback(buildId, wave) {
      const { rollbackBuild } = await import("../../coordinator/build/rollback-build.ts");
      await rollbackBuild(ports, buildId, wave);
    },
    async undoRollback(buildId) {
      const { undoRollback } = await import("../../coordinator/build/undo-rollback.ts");
      await undoRollback(ports, buildId);
    },
    async editPlan(buildId, file, how) {
      const { editPlan } = await import("../../coordinator/plan/edit-plan.ts");
      const { refuseWithoutModels } = await import("../../coordinator/plan/plan-models.ts");
      const plan = (await readPlan(file, environment)).plan!;
      refuseWithoutModels(ports.models, plan);
      return editPlan(ports, buildId, plan, how);
    },
    async comment(buildId, comment) {
      const { addComment } = await import("../../coordinator/wave/comments.ts");
      return addComment(ports, buildId, comment);
    },
    async tell(buildId, task, said) {
      const { tellTask } = await import("../../coordinator/attempt/messages.ts");
      const { message, way } = await tellTask(ports, buildId, task, said);
      return { id: message.id, way };
    },
  };
}
