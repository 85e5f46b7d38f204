import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { ApiError, api, dataOf } from "../api/request.ts";
import { Icon } from "../parts/icon.tsx";
import { sizeText } from "../parts/sizes.ts";
import { Empty, Loading, Shown } from "../parts/states.tsx";

const FileShown = lazy(() => import("./file-shown.tsx").then((module) => ({ default: module.FileShown })));
const route = getRouteApi("/projects/$id");

/** The files on a project's main, folder by folder. */
export function ProjectFiles({ projectId }: { readonly projectId: string }) {
  const { file = "" } = route.useSearch();
  const isFolder = file === "" || file.endsWith("/");
  const folder = file.slice(0, file.lastIndexOf("/") + 1);
  const listed = useQuery(folderQuery(projectId, folder));
  if (listed.error instanceof ApiError && listed.error.status === 404 && folder === "")
    return <Empty title="No files yet.">They appear once the first wave has passed.</Empty>;
  return (
    <div className="files">
      <nav aria-label="Files" className="stack tight">
        <Crumbs projectId={projectId} folder={folder} />
        <Shown query={listed} what="the folder">
          {({ items, nextCursor }) => (
            <ul className="card list">
              {items.map(({ path, name, kind, sizeBytes }) => (
                <li key={path}>
                  <Link
                    to="/projects/$id"
                    params={{ id: projectId }}
                    search={{ tab: "files", file: kind === "folder" ? `${path}/` : path }}
                    className="file-line row plain small"
                    aria-current={path === file ? "true" : undefined}
                    resetScroll={false}
                  >
                    <Icon name={kind === "folder" ? "projects" : "file"} size={14} />
                    <span className="clip grow">{name}</span>
                    {sizeBytes !== null && <span className="tiny faint num">{sizeText(sizeBytes)}</span>}
                  </Link>
                </li>
              ))}
              {nextCursor !== null && (
                <li className="list-item tiny faint">This folder has more files than are shown here.</li>
              )}
            </ul>
          )}
        </Shown>
      </nav>
      {isFolder ? (
        <p className="empty small wide-only">Choose a file to see it.</p>
      ) : (
        <Suspense fallback={<Loading what="the file" />}>
          <FileShown key={file} projectId={projectId} path={file} />
        </Suspense>
      )}
    </div>
  );
}

const folderQuery = (id: string, folder: string) => ({
  queryKey: ["files", id, folder],
  queryFn: ({ signal }: { readonly signal: AbortSignal }) => {
    const query = { path: folder.replace(/\/$/, ""), limit: 200 };
    return dataOf(api.GET("/api/v1/projects/{id}/files", { params: { path: { id }, query }, signal }));
  },
});

function Crumbs({ projectId, folder }: { readonly projectId: string; readonly folder: string }) {
  const parts = folder.split("/").slice(0, -1);
  const link = (label: string, file: string | undefined) => (
    <Link
      to="/projects/$id"
      params={{ id: projectId }}
      search={{ tab: "files", ...(file === undefined ? {} : { file }) }}
      resetScroll={false}
    >
      {label}
    </Link>
  );
  return (
    <div className="small mono row tight wrap">
      {link("main", undefined)}
      {parts.map((part, index) => {
        const path = `${parts.slice(0, index + 1).join("/")}/`;
        return (
          <span key={path}>
            <span className="faint">/</span> {link(part, path)}
          </span>
        );
      })}
    </div>
  );
}
