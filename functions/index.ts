import type { InngestFunction } from "inngest";
import { attemptFinish } from "./attempt-finish.ts";
import { buildCancel } from "./build-cancel.ts";
import { buildStart } from "./build-start.ts";
import { ciEvents } from "./ci-events.ts";
import type { Flow } from "./flow.ts";
import { forgeEvents } from "./forge-events.ts";
import { gateFinish } from "./gate-finish.ts";
import { gateFix } from "./gate-fix.ts";
import { gateStarts } from "./gate-start.ts";
import { previewDeploy } from "./preview-deploy.ts";
import { pullRequestOpen } from "./pull-request-open.ts";
import { sandboxHealth } from "./sandbox-health.ts";
import { sandboxIdle } from "./sandbox-idle.ts";
import { sandboxReconcile } from "./sandbox-reconcile.ts";
import { snapshotRetention } from "./snapshot-retention.ts";
import { taskExecute } from "./task-execute.ts";
import { upkeep } from "./upkeep.ts";
import { waveDecides } from "./wave-decide.ts";
import { waveDeliver } from "./wave-deliver.ts";
import { waveJoin } from "./wave-join.ts";
import { waveStart } from "./wave-start.ts";

/** Creates every function: a build's in order, then a cron and the functions it triggers. */
export const createFunctions = (flow: Flow): InngestFunction.Any[] => [
  buildStart(flow),
  waveStart(flow),
  taskExecute(flow),
  attemptFinish(flow),
  waveJoin(flow),
  ...gateStarts(flow),
  gateFinish(flow),
  gateFix(flow),
  ...waveDecides(flow),
  waveDeliver(flow),
  previewDeploy(flow),
  pullRequestOpen(flow),
  buildCancel(flow),
  ...ciEvents(flow),
  ...forgeEvents(flow),
  upkeep(flow),
  sandboxHealth(flow),
  sandboxIdle(flow),
  sandboxReconcile(flow),
  snapshotRetention(flow),
];
