import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { buildsQuery, inboxQuery } from "../api/queries.ts";
import { BuildTable } from "../build/build-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Shown } from "../parts/states.tsx";
import { isOpen } from "../parts/tones.ts";
import { NeedsYou } from "./needs-you.tsx";
import { RunningBuild } from "./running-build.tsx";

const mostEnded = 8;

/** Builds that need the reader come first, then running ones, then finished ones. */
export function HomePage() {
  const builds = useQuery(buildsQuery());
  return (
    <>
      <PageHead title="Home" page="Home">
        <Link to="/start" className="button primary">
          <Icon name="start" />
          Start a build
        </Link>
      </PageHead>
      <Shown query={builds} what="builds">
        {(rows) => (rows.length === 0 ? <FirstBuild /> : <Builds rows={rows} />)}
      </Shown>
    </>
  );
}

function Builds({ rows }: { readonly rows: readonly ApiType<"BuildRow">[] }) {
  const inbox = useQuery(inboxQuery);
  const running = rows.filter(({ status }) => status !== "waiting" && isOpen(status));
  const ended = rows.filter(({ status }) => !isOpen(status)).slice(0, mostEnded);
  return (
    <>
      <section className="stack" aria-labelledby="needs">
        <h2 id="needs">Needs you</h2>
        <Shown query={inbox} what="what needs you">
          {(items) => <NeedsYou items={items} />}
        </Shown>
      </section>
      <section className="stack" aria-labelledby="running">
        <h2 id="running">Running now</h2>
        {running.length === 0 && <p className="soft small">Nothing is running.</p>}
        <div className="running-builds">
          {running.map(({ id }) => (
            <RunningBuild key={id} id={id} />
          ))}
        </div>
      </section>
      {ended.length > 0 && (
        <section className="stack" aria-labelledby="ended">
          <h2 id="ended">Recently finished</h2>
          <BuildTable rows={ended} />
        </section>
      )}
    </>
  );
}

/** For those who have never built: what this is, and the three ways to begin. */
function FirstBuild() {
  return (
    <section className="card first-build stack" aria-labelledby="first">
      <h2 id="first">No build yet</h2>
      <p className="soft">
        A plan becomes waves of tasks. Agents do the tasks side by side, gates check each wave, and a wave that passes
        becomes main. You see all of it here, and decide where you are asked.
      </p>
      <div className="row wrap">
        <Link to="/start" className="button primary">
          Try an example or your own plan
        </Link>
        <Link to="/start" search={{ from: "brief" }} className="button">
          Describe what you want
        </Link>
      </div>
      <p className="small faint">
        In a terminal: <code>wavesmith build plan.yaml</code>
      </p>
    </section>
  );
}
