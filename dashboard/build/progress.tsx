import type { ApiType } from "../../src/client/client.ts";

/** How many tasks are done, failed and at work. A task is done once its wave has passed. */
export function Progress({ build: { status, tasks, waves } }: { readonly build: ApiType<"Build"> }) {
  const passed = new Set(waves.filter((wave) => wave.status === "passed").map(({ number }) => number));
  const present = tasks.filter((task) => task.status !== "removed");
  const count = (...statuses: readonly string[]) => present.filter((task) => statuses.includes(task.status)).length;
  const completed = present.filter((task) => task.status === "completed");
  const done = completed.filter(({ wave }) => status === "completed" || (wave !== null && passed.has(wave))).length;
  const unpassed = completed.length - done;
  const failed = count("failed", "cancelled", "skipped");
  const atWork = count("running", "joining");
  const isStuck = status === "failed" || status === "cancelled";
  const width = (part: number) => ({ width: `${(100 * part) / Math.max(1, present.length)}%` });
  return (
    <div className="stack tight">
      <div
        className="bar"
        role="progressbar"
        aria-label="Completed tasks"
        aria-valuemin={0}
        aria-valuemax={present.length}
        aria-valuenow={done}
      >
        <span data-tone="good" style={width(done)} />
        <span data-tone={isStuck ? "bad" : "wait"} style={width(unpassed)} />
        <span data-tone="bad" style={width(failed)} />
        <span data-tone="run" data-begun style={width(atWork)} />
      </div>
      <div className="tiny faint num">
        {done} of {present.length} tasks completed
        {unpassed > 0 && `, ${unpassed} in a wave that ${isStuck ? "did not pass" : "has not passed yet"}`}
        {atWork > 0 && `, ${atWork} at work`}
        {failed > 0 && `, ${failed} not completed`}
      </div>
    </div>
  );
}
