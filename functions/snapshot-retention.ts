import { expireSnapshots } from "../src/coordinator/expire-snapshots.ts";
import { cronFunction, type Flow } from "./flow.ts";

export const snapshotRetention = (flow: Flow) =>
  cronFunction(flow, {
    id: "snapshot-retention",
    name: "Snapshots: remove those kept long enough",
    cron: "17 * * * *",
    run: ({ step }) => step("remove old ones", () => expireSnapshots(flow.ports)),
  });
