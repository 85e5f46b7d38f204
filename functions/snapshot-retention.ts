import { expireSnapshots } from "../src/sandbox-lifecycle/snapshots/expire-snapshots.ts";
import { choreFunction, type Flow } from "./flow.ts";

export const snapshotRetention = (flow: Flow) =>
  choreFunction(flow, {
    id: "snapshot-retention",
    name: "Snapshots: remove those kept long enough",
    trigger: "snapshot/retention.due",
    run: ({ step }) => step("remove old ones", () => expireSnapshots(flow.ports)),
  });
