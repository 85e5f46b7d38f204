import type { Command } from "commander";
import type { AddCommand } from "./add-command.ts";

/** Adds the commands for what starts builds by the clock. */
export function addScheduleCommands(program: Command, command: AddCommand): void {
  const schedules = command(program, "schedules", "list what starts builds by the clock", async (context) =>
    (await import("./commands/schedules.ts")).listSchedules(context),
  );
  command(
    schedules,
    "add [file]",
    "make the schedules of a wavesmith.yaml (default: the one here)",
    async (context, [file]) => (await import("./commands/schedules.ts")).addSchedules(context, file),
  );
  const changes = {
    pause: "start no more builds of a schedule",
    resume: "run a paused schedule again, from its next time on",
    remove: "remove a schedule that was added",
  } as const;
  for (const change of ["pause", "resume", "remove"] as const)
    command(schedules, `${change} <id>`, changes[change], async (context, [id]) =>
      (await import("./commands/schedules.ts")).changeSchedule(context, change, id),
    );
}
