import type { BuildRow, TaskRow, WaveRow } from "../../store/port.ts";
import type { JoinResult } from "../../workspace/port.ts";
import { commitTrailers } from "../commit-trailers.ts";
import type { Ports } from "../port.ts";

export const joiner = { name: "Wavesmith", email: "wavesmith@agents.wavesmith.invalid" };

export interface Branches {
  readonly build: BuildRow;
  readonly wave: WaveRow;
  /** In plan order; tasks without a commit changed nothing. */
  readonly members: readonly Pick<TaskRow, "key" | "definition" | "commitSha">[];
}

/** Joins the branches of these tasks on the wave's base, without moving a ref. */
export async function mergeBranches(ports: Ports, { build, wave, members }: Branches): Promise<JoinResult> {
  return ports.workspace.join({
    projectId: build.projectId,
    base: wave.baseSha,
    branches: members.flatMap((task) =>
      task.commitSha === null ? [] : [{ taskKey: task.key, title: task.definition.title, commit: task.commitSha }],
    ),
    generated: build.plan.generated.map((entry) => entry.path),
    date: wave.createdAt,
    author: joiner,
    message: (branch) =>
      `Join ${branch.taskKey}: ${branch.title}\n\n${commitTrailers(build, wave, branch.taskKey).join("\n")}\n`,
  });
}
