import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { plainText } from "../parts/plain-text.ts";
import { Failure, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Left } from "../parts/times.tsx";

/** The schedules, with buttons to pause and resume them. */
export function Schedules({ maySteer }: { readonly maySteer: boolean }) {
  const schedules = useQuery({
    queryKey: ["schedules"],
    queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/schedules", { signal }))).items,
    refetchInterval: 10_000,
  });
  return (
    <section className="stack" aria-labelledby="schedules">
      <h2 id="schedules">Schedules</h2>
      <Shown query={schedules} what="schedules">
        {(items) =>
          items.length === 0 ? (
            <p className="small soft">
              None yet. A <code>wavesmith.yaml</code> on main makes them, and so does{" "}
              <code>wavesmith schedules add</code>.
            </p>
          ) : (
            <ul className="card list">
              {items.map((schedule) => (
                <ScheduleLine key={schedule.id} schedule={schedule} maySteer={maySteer} />
              ))}
            </ul>
          )
        }
      </Shown>
    </section>
  );
}

interface ScheduleLineProps {
  readonly schedule: ApiType<"Schedule">;
  readonly maySteer: boolean;
}

function ScheduleLine({ schedule, maySteer }: ScheduleLineProps) {
  const { id, project, name, cron, timezone, status, nextAt, lastBuildId, note } = schedule;
  const next = status === "paused" ? "resume" : "pause";
  const act = useAction(["schedules"], () =>
    dataOf(api.POST(`/api/v1/schedules/{id}/${next}`, { params: { path: { id } } })),
  );
  return (
    <li className="list-item">
      <StatusBadge status={status} />
      <div className="grow">
        <span className="strong">{name}</span> <span className="small soft">of {project}</span>
        <div className="tiny faint">
          <code>{cron}</code> {timezone}
          {nextAt !== null && (
            <>
              {" · next "}
              <Left until={nextAt} />
            </>
          )}
          {lastBuildId !== null && (
            <>
              {" · "}
              <Link to="/builds/$id" params={{ id: lastBuildId }}>
                last build
              </Link>
            </>
          )}
        </div>
        {note !== null && <div className="small soft">{plainText(note)}</div>}
        <Failure error={act.error} />
      </div>
      {maySteer && (
        <ActionButton action={act} given={undefined} label={`${status === "paused" ? "Resume" : "Pause"} ${name}`}>
          {status === "paused" ? "Resume" : "Pause"}
        </ActionButton>
      )}
    </li>
  );
}
