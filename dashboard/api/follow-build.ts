import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { client as server } from "./request.ts";

// Events only say that something changed; what it is now comes from the queries. So a lost or
// repeated event shows nothing wrong.

/** Queries are asked at most this often, however many events arrive. */
const burstMs = 250;
/** Clocks of the server and the reader may differ. */
const slackMs = 60_000;

/** Keeps everything shown of a build up to date. */
export function useLiveBuild(id: string): void {
  const queries = useQueryClient();
  useEffect(() => {
    const leaving = new AbortController();
    const since = Date.now() - slackMs;
    let timer: ReturnType<typeof setTimeout> | null = null;
    let isAskedAgain = false;
    // The first event of a burst is shown at once, and the rest of it together at its end.
    const refresh = (): void => {
      isAskedAgain = timer !== null;
      if (timer !== null) return;
      void queries.invalidateQueries({ queryKey: ["build", id] });
      void queries.invalidateQueries({ queryKey: ["inbox"] });
      timer = setTimeout(() => {
        timer = null;
        if (isAskedAgain) refresh();
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
