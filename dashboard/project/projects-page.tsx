import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { buildsQuery, projectsQuery, sandboxesQuery } from "../api/queries.ts";
import { PageHead } from "../parts/page-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Ago } from "../parts/times.tsx";

/** Every project, with its last build and its sandbox. */
export function ProjectsPage() {
  const projects = useQuery(projectsQuery);
  const builds = useQuery(buildsQuery()).data ?? [];
  const sandboxes = useQuery(sandboxesQuery).data ?? [];
  return (
    <>
      <PageHead title="Projects" page="Projects" />
      <Shown query={projects} what="projects">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No projects yet.">
              Your first build creates one. <Link to="/start">Start a build</Link>
            </Empty>
          ) : (
            <ul className="card list">
              {rows.map(({ id, name, createdAt }) => {
                const last = builds.find(({ projectId }) => projectId === id);
                const sandbox = sandboxes.find(({ projectId }) => projectId === id);
                return (
                  <li key={id} className="list-item">
                    <div className="grow">
                      <Link to="/projects/$id" params={{ id }} className="strong">
                        {name}
                      </Link>
                      <div className="tiny faint">
                        made <Ago time={createdAt} />
                        {sandbox !== undefined && ` · sandbox ${sandbox.state} (${sandbox.driver})`}
                      </div>
                    </div>
                    {last === undefined ? (
                      <span className="small faint">no recent builds</span>
                    ) : (
                      <Link to="/builds/$id" params={{ id: last.id }} className="row plain small">
                        <span className="faint">
                          <Ago time={last.createdAt} />
                        </span>
                        <StatusBadge status={last.status} />
                      </Link>
                    )}
                  </li>
                );
              })}
            </ul>
          )
        }
      </Shown>
    </>
  );
}
