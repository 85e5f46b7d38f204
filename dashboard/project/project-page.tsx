import { useQueries, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { buildQuery, buildsQuery, previewsQuery, projectsQuery, sandboxesQuery } from "../api/queries.ts";
import { BuildTable } from "../build/build-table.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { PreviewCard } from "./preview-card.tsx";
import { SandboxCard } from "./sandbox-card.tsx";
import { SpendingCard } from "./spending-card.tsx";

const route = getRouteApi("/projects/$id");
/** Of how many builds the spending is summed. */
const summed = 12;

/** A project: its builds, its sandbox, its previews and what it spent. */
export function ProjectPage() {
  const { id } = route.useParams();
  const projects = useQuery(projectsQuery);
  const project = projects.data?.find((one) => one.id === id || one.name === id);
  const builds = useQuery(buildsQuery(id));
  const sandboxes = useQuery(sandboxesQuery).data ?? [];
  const previews = useQuery(previewsQuery).data ?? [];
  const rows = (builds.data ?? []).slice(0, summed);
  const details = useQueries({ queries: rows.map((row) => buildQuery(row.id)) });
  const name = project?.name ?? id;
  return (
    <>
      <PageHead title={name} page={name}>
        <Link to="/start" search={{ project: name }} className="button primary">
          Start a build
        </Link>
      </PageHead>
      <div className="project-cards">
        <SandboxCard projectId={id} sandbox={sandboxes.find(({ projectId }) => projectId === id)} />
        <PreviewCard preview={previews.find(({ projectId }) => projectId === id)} />
        <SpendingCard builds={details.flatMap(({ data }) => (data === undefined ? [] : [data]))} />
      </div>
      <section className="stack" aria-labelledby="project-builds">
        <h2 id="project-builds">Builds</h2>
        <Shown query={builds} what="builds">
          {(all) => (all.length === 0 ? <Empty title="No build yet." /> : <BuildTable rows={all} />)}
        </Shown>
      </section>
    </>
  );
}
