import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { client as server } from "./request.ts";

// Events only say that something changed; what it is now comes from the queries. So a lost or
// repeated event shows nothing wrong.

/** Events arrive in bursts, and one refetch answers a whole burst. */
const burstMs = 120;
/** Clocks of the server and the reader may differ. */
const slackMs = 60_000;

/** Keeps everything shown of a build up to date. */
export function useLiveBuild(id: string): void {
  const queries = useQueryClient();
  useEffect(() => {
    const leaving = new AbortController();
    const since = Date.now() - slackMs;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const refresh = (): void => {
      timer ??= setTimeout(() => {
        timer = null;
        void queries.invalidateQueries({ queryKey: ["build", id] });
        void queries.invalidateQueries({ queryKey: ["inbox"] });
      }, burstMs);
    };
    const follow = async (): Promise<void> => {
      for await (const { data } of server.followBuild(id, { signal: leaving.signal })) {
        // The queries have already shown this event.
        if (typeof data.at === "string" && Date.parse(data.at) < since) continue;
        refresh();
      }
    };
    follow().catch(() => undefined); // the queries show why
    return () => {
      leaving.abort();
      if (timer !== null) clearTimeout(timer);
    };
  }, [queries, id]);
}
