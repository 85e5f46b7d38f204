import type { Build } from "../api/types.ts";

/** How many tasks are done, failed and at work. */
export function Progress({ build: { tasks } }: { readonly build: Build }) {
  const present = tasks.filter(({ status }) => status !== "removed");
  const count = (...statuses: readonly string[]) => present.filter(({ status }) => statuses.includes(status)).length;
  const done = count("completed");
  const failed = count("failed", "cancelled", "skipped");
  const atWork = count("running", "joining");
  const width = (part: number) => ({ width: `${(100 * part) / Math.max(1, present.length)}%` });
  return (
    <div className="stack" style={{ gap: "0.3rem" }}>
      <div
        className="bar"
        role="progressbar"
        aria-label="Completed tasks"
        aria-valuemin={0}
        aria-valuemax={present.length}
        aria-valuenow={done}
      >
        <span data-tone="good" style={width(done)} />
        <span data-tone="bad" style={width(failed)} />
        <span data-tone="run" style={width(atWork)} />
      </div>
      <div className="tiny faint num">
        {done} of {present.length} tasks completed
        {atWork > 0 && `, ${atWork} at work`}
        {failed > 0 && `, ${failed} not completed`}
      </div>
    </div>
  );
}
