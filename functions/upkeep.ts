import { askForChores } from "../src/sandbox-lifecycle/upkeep/due-chores.ts";
import { cronFunction, type Flow } from "./flow.ts";

export const upkeep = (flow: Flow) =>
  cronFunction(flow, {
    id: "upkeep",
    name: "Upkeep: ask for what is due",
    cron: "* * * * *",
    run: ({ step }) => step("see what is due and ask for it", () => askForChores(flow.ports)),
  });
