import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { buildsQuery, inboxQuery } from "../api/queries.ts";
import { BuildTable } from "../build/build-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { isOpen } from "../parts/tones.ts";
import { NeedsYou } from "./needs-you.tsx";
import { RunningBuild } from "./running-build.tsx";

/** Builds that need the reader come first, then running ones, then finished ones. */
export function HomePage() {
  const inbox = useQuery(inboxQuery);
  const builds = useQuery(buildsQuery());
  return (
    <>
      <PageHead title="Home" page="Home">
        <Link to="/start" className="button primary">
          <Icon name="start" />
          Start a build
        </Link>
      </PageHead>
      <section className="stack" aria-labelledby="needs">
        <h2 id="needs">Needs you</h2>
        <Shown query={inbox} what="what needs you">
          {(items) => <NeedsYou items={items} />}
        </Shown>
      </section>
      <Shown query={builds} what="builds">
        {(rows) => {
          const running = rows.filter(({ status }) => status !== "waiting" && isOpen(status));
          const ended = rows.filter(({ status }) => !isOpen(status)).slice(0, 8);
          return (
            <>
              <section className="stack" aria-labelledby="running">
                <h2 id="running">Running now</h2>
                {running.length === 0 && <p className="soft small">Nothing runs.</p>}
                {running.map(({ id }) => (
                  <RunningBuild key={id} id={id} />
                ))}
              </section>
              <section className="stack" aria-labelledby="ended">
                <h2 id="ended">Ended lately</h2>
                {ended.length === 0 ? (
                  <Empty title="No build has ended yet.">
                    <Link to="/start">Start one</Link> from a plan, a description or an example.
                  </Empty>
                ) : (
                  <BuildTable rows={ended} />
                )}
              </section>
            </>
          );
        }}
      </Shown>
    </>
  );
}
