import { useEffect, useState } from "react";
import { client } from "../api/request.ts";
import { type Activity, addOutput, noActivity } from "./activity.ts";

/** Output arrives in many parts, which one drawing shows. */
const drawMs = 100;

export interface FollowedActivity {
  readonly activity: Activity;
  readonly isOver: boolean;
  readonly error: unknown;
}

const nothing: FollowedActivity = { activity: noActivity, isOver: false, error: null };

/** Follows what an attempt prints, from its beginning. */
export function useActivity(buildId: string, task: string, attempt: number): FollowedActivity {
  const [shown, setShown] = useState(nothing);
  useEffect(() => {
    const leaving = new AbortController();
    let latest = nothing;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const draw = (next: FollowedActivity): void => {
      latest = next;
      timer ??= setTimeout(() => {
        timer = null;
        setShown(latest);
      }, drawMs);
    };
    const follow = async (): Promise<void> => {
      let parts = "";
      for await (const { event, data } of client.followLog({ buildId, task, attempt }, { signal: leaving.signal })) {
        const isOver = event === "end";
        parts = isOver ? "" : String(data.text ?? "");
        draw({ activity: addOutput(latest.activity, parts, isOver), isOver, error: null });
      }
    };
    setShown(nothing);
    follow().catch((error: unknown) => {
      if (!leaving.signal.aborted) draw({ ...latest, error });
    });
    return () => {
      leaving.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, [buildId, task, attempt]);
  return shown;
}
