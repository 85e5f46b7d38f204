import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { buildsQuery, previewsQuery, projectQuery, sandboxesQuery } from "../api/queries.ts";
import { ApiError } from "../api/request.ts";
import { BuildTable } from "../build/build-table.tsx";
import { asWhole } from "../parts/as-whole.ts";
import { NotFound } from "../parts/not-found.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { isOpen } from "../parts/tones.ts";
import { RequestList } from "../request/request-list.tsx";
import { ProjectFiles } from "./files.tsx";
import { ProjectMemory } from "./memory.tsx";
import { PreviewCard } from "./preview-card.tsx";
import { PreviewLog } from "./preview-log.tsx";
import { RestorePoints } from "./restore-points.tsx";
import { SandboxCard } from "./sandbox-card.tsx";
import { SpendingCard } from "./spending-card.tsx";

const route = getRouteApi("/projects/$id");
const tabs = [
  { tab: undefined, label: "Builds" },
  { tab: "files", label: "Files" },
  { tab: "memory", label: "Memory" },
  { tab: "preview", label: "Preview" },
] as const;

/** A project: its builds, sandbox, preview and spending; its files; what it remembers. */
export function ProjectPage() {
  const { id } = route.useParams();
  const { tab } = route.useSearch();
  const { data: project, error } = useQuery(projectQuery(id));
  const name = project?.name ?? id;
  if (error instanceof ApiError && error.status === 404) return <NotFound what={`There is no project ${id}.`} />;
  return (
    <>
      <PageHead title={name} page={name}>
        <Link to="/start" search={{ project: name }} className="button primary">
          Start a build
        </Link>
      </PageHead>
      <nav className="tabs" aria-label="Parts of the project">
        {tabs.map(({ tab: to, label }) => (
          <Link
            key={label}
            to="/projects/$id"
            params={{ id }}
            search={to === undefined ? {} : { tab: to }}
            className="tab"
            activeOptions={to === undefined ? asWhole : { includeSearch: true }}
          >
            {label}
          </Link>
        ))}
      </nav>
      {tab === undefined && <Overview projectId={project?.id ?? id} />}
      {tab === "files" && <ProjectFiles projectId={id} />}
      {tab === "preview" && <PreviewOutput projectId={project?.id ?? id} />}
      {tab === "memory" && <ProjectMemory projectId={id} />}
    </>
  );
}

/** The log of the project's preview, or of the last build's, which may have been stopped. */
function PreviewOutput({ projectId: id }: { readonly projectId: string }) {
  const preview = useQuery(previewsQuery).data?.find(({ projectId }) => projectId === id);
  const builds = useQuery(buildsQuery(id));
  return (
    <Shown query={builds} what="the preview">
      {(all) => {
        const buildId = preview?.buildId ?? all[0]?.id;
        return buildId === undefined ? (
          <Empty title="No builds yet." />
        ) : (
          <PreviewLog key={buildId} buildId={buildId} />
        );
      }}
    </Shown>
  );
}

const isAtWork = ({ status }: ApiType<"BuildRow">): boolean => isOpen(status) && status !== "waiting";

function Overview({ projectId: id }: { readonly projectId: string }) {
  const builds = useQuery(buildsQuery(id));
  const sandboxes = useQuery(sandboxesQuery).data ?? [];
  const previews = useQuery(previewsQuery).data ?? [];
  return (
    <>
      <div className="project-cards">
        <SandboxCard projectId={id} sandbox={sandboxes.find(({ projectId }) => projectId === id)} />
        <PreviewCard preview={previews.find(({ projectId }) => projectId === id)} />
        <SpendingCard projectId={id} />
      </div>
      {builds.data !== undefined && builds.data.length > 0 && (
        <section className="stack" aria-labelledby="project-requests">
          <h2 id="project-requests">Requests</h2>
          <RequestList rows={builds.data} />
        </section>
      )}
      <RestorePoints projectId={id} isBusy={builds.data?.some(isAtWork) === true} />
      <section className="stack" aria-labelledby="project-builds">
        <h2 id="project-builds">Builds</h2>
        <Shown query={builds} what="builds">
          {(all) => (all.length === 0 ? <Empty title="No builds yet." /> : <BuildTable rows={all} />)}
        </Shown>
      </section>
    </>
  );
}
