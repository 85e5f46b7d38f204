import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { Empty, Shown } from "../parts/states.tsx";
import { type Activity, addOutput, noActivity } from "../task/activity.ts";
import { ActivityLog } from "../task/activity-view.tsx";

const listMs = 5_000;
const outputMs = 2_000;

/** The output of each start of a preview, latest first. */
export function PreviewLog({ buildId }: { readonly buildId: string }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const jobs = useQuery({
    queryKey: ["build", buildId, "jobs"],
    queryFn: async ({ signal }) => {
      const params = { path: { id: buildId } };
      return (await dataOf(api.GET("/api/v1/builds/{id}/jobs", { params, signal }))).items;
    },
    refetchInterval: listMs,
  });
  return (
    <Shown query={jobs} what="what it printed">
      {(all) => {
        const starts = all.filter(({ label }) => label === "preview").reverse();
        const job = starts.find(({ jobKey }) => jobKey === chosen) ?? starts[0];
        if (job === undefined) return <Empty title="The preview has not been started yet." />;
        return (
          <div className="stack">
            {starts.length > 1 && (
              <label className="row small soft">
                Start
                <select className="field chooser" value={job.jobKey} onChange={({ target }) => setChosen(target.value)}>
                  {starts.map(({ jobKey }, index) => (
                    <option key={jobKey} value={jobKey}>
                      {index === 0 ? "the last one" : `number ${starts.length - index}`}
                    </option>
                  ))}
                </select>
              </label>
            )}
            <JobLog key={job.jobKey} buildId={buildId} job={job} />
          </div>
        );
      }}
    </Shown>
  );
}

interface ReadSoFar {
  readonly activity: Activity;
  readonly after: number;
  /** Whether the job had ended before this was read. */
  readonly isWhole: boolean;
}

function JobLog({ buildId, job }: { readonly buildId: string; readonly job: ApiType<"Job"> }) {
  const client = useQueryClient();
  const queryKey = ["build", buildId, "job-output", job.jobKey];
  const output = useQuery({
    queryKey,
    queryFn: async ({ signal }): Promise<ReadSoFar> => {
      let read = client.getQueryData<ReadSoFar>(queryKey) ?? { activity: noActivity, after: -1, isWhole: false };
      for (;;) {
        const params = { path: { id: buildId, job: job.jobKey }, query: { after: read.after, limit: 200 } };
        const { items } = await dataOf(api.GET("/api/v1/builds/{id}/jobs/{job}/output", { params, signal }));
        const last = items.at(-1);
        if (last === undefined) return { ...read, isWhole: job.ended };
        const text = items.map((item) => item.text).join("");
        read = { ...read, activity: addOutput(read.activity, text, false), after: last.startsAt };
      }
    },
    refetchInterval: ({ state: { data } }) => (data?.isWhole === true ? false : outputMs),
  });
  return (
    <Shown query={output} what="what it printed">
      {({ activity, isWhole }) =>
        activity.entries.length === 0 ? (
          <Empty title={isWhole ? "It printed no output." : "It has printed no output yet."} />
        ) : (
          <div className="card log-card">
            <ActivityLog followed={{ activity, isOver: isWhole, error: null }} label="What the preview printed" />
          </div>
        )
      }
    </Shown>
  );
}
