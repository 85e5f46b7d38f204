import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { diffQuery, gatesQuery } from "../api/queries.ts";
import { BuildShown } from "../build/build-shown.tsx";
import { PartHead } from "../build/part-head.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { useComments } from "./comments.tsx";
import { type Commenting, type FileChange, FileChangeView, filesOf, lineCounts, type Remark } from "./diff-view.tsx";
import { FileTree } from "./file-tree.tsx";
import { OpenComments } from "./open-comments.tsx";
import { useViewed } from "./viewed.ts";

const route = getRouteApi("/builds/$id/changes");

/** The diff of a build, a wave or a task, with the gates' findings beside it. */
export function ChangesPage() {
  const { id } = route.useParams();
  return <BuildShown id={id}>{(build) => <BuildChanges build={build} />}</BuildShown>;
}

function BuildChanges({ build }: { readonly build: ApiType<"Build"> }) {
  const { id, project } = build;
  const search = route.useSearch();
  const gates = useQuery(gatesQuery(id));
  const wave = search.wave ?? (search.task === undefined ? undefinedUnlessUnpassed(build) : undefined);
  const of = search.task === undefined && wave !== undefined ? { wave } : search;
  const diff = useQuery(diffQuery(id, of));
  const comments = useComments(id);
  return (
    <>
      <PartHead buildId={id} project={project} part="Changes" />
      <SpanChooser build={build} chosen={{ ...search, ...(wave === undefined ? {} : { wave }) }} />
      <OpenComments build={build} comments={comments} />
      <Shown query={diff} what="the changes">
        {(text) => (
          <Changes
            id={id}
            text={text}
            remarks={[...findingsOf(gates.data ?? [], wave), ...comments.map(remarkOf)]}
            commenting={commentingOn(build, search.task)}
          />
        )}
      </Shown>
    </>
  );
}

const remarkOf = (comment: ApiType<"PersonsFindingRow">): Remark => ({ kind: "comment", comment });

/**
 * The recipient of a comment: the task's next attempt if there will be one, otherwise the wave's
 * fixer.
 */
function commentingOn({ id, status, tasks }: ApiType<"Build">, shown: string | undefined): Commenting | undefined {
  if (status === "completed" || status === "cancelled") return undefined;
  const isToCome = tasks.some((task) => task.id === shown && task.status !== "completed");
  return { buildId: id, task: isToCome ? shown : undefined };
}

/** The build has no changes of its own until a wave has passed; then the joined wave has. */
function undefinedUnlessUnpassed(build: ApiType<"Build">): number | undefined {
  if (build.waves.some(({ status }) => status === "passed")) return undefined;
  return build.waves.findLast(({ commit }) => commit !== null)?.number;
}

interface Chosen {
  readonly task?: string;
  readonly wave?: number;
}

function SpanChooser({ build, chosen }: { readonly build: ApiType<"Build">; readonly chosen: Chosen }) {
  const navigate = route.useNavigate();
  const value =
    chosen.task !== undefined ? `task ${chosen.task}` : chosen.wave !== undefined ? `wave ${chosen.wave}` : "";
  const choose = (next: string): void => {
    const [kind, ...rest] = next.split(" ");
    const name = rest.join(" ");
    const search = kind === "task" ? { task: name } : kind === "wave" ? { wave: Number(name) } : {};
    void navigate({ search, hash: "" });
  };
  return (
    <label className="row small soft">
      Show
      <select className="field chooser" value={value} onChange={({ target }) => choose(target.value)}>
        <option value="">the whole build</option>
        <optgroup label="Waves">
          {build.waves.map(({ number, status }) => (
            <option key={number} value={`wave ${number}`}>
              wave {number} ({status})
            </option>
          ))}
        </optgroup>
        <optgroup label="Tasks">
          {build.tasks.map(({ id }) => (
            <option key={id} value={`task ${id}`}>
              {id}
            </option>
          ))}
        </optgroup>
      </select>
    </label>
  );
}

interface ChangesProps {
  readonly id: string;
  readonly text: string;
  readonly remarks: readonly Remark[];
  readonly commenting: Commenting | undefined;
}

function Changes({ id, text, remarks, commenting }: ChangesProps) {
  const files = useMemo(() => filesOf(text), [text]);
  const [layout, setLayout] = useState<"unified" | "split">(() => (innerWidth >= 1500 ? "split" : "unified"));
  const viewed = useViewed(id);
  const findings = remarks.flatMap((remark) => (remark.kind === "finding" ? [remark.finding] : []));
  useEffect(() => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (name !== "") document.getElementById(name)?.scrollIntoView();
  }, []);
  if (files.length === 0) return <Empty title="Nothing changed." />;
  const added = files.reduce((sum, file) => sum + lineCounts(file).added, 0);
  const removed = files.reduce((sum, file) => sum + lineCounts(file).removed, 0);
  const keyOf = (file: FileChange): string => `${file.name} ${file.newObjectId ?? ""}`;
  return (
    <div className="changes">
      <nav className="changes-tree" aria-label="Changed files">
        <div className="row small soft">
          <span className="grow num">
            {files.length} {files.length === 1 ? "file" : "files"}{" "}
            <span className="added">+{added.toLocaleString("en-US")}</span>{" "}
            <span className="removed">−{removed.toLocaleString("en-US")}</span>
          </span>
          <button
            type="button"
            className="button quiet wide-only"
            onClick={() => setLayout(layout === "split" ? "unified" : "split")}
          >
            {layout === "split" ? "Unified" : "Side by side"}
          </button>
        </div>
        <FileTree files={files} isViewed={(file) => viewed.has(keyOf(file))} findings={findings} />
      </nav>
      <div className="stack changes-files">
        {files.map((file) => (
          <FileChangeView
            key={file.name}
            file={file}
            layout={layout}
            beside={remarks.filter((remark) => fileOf(remark) === file.name)}
            commenting={commenting}
            isCollapsed={viewed.has(keyOf(file))}
            header={
              <label className="row tiny soft viewed">
                <input type="checkbox" checked={viewed.has(keyOf(file))} onChange={() => viewed.toggle(keyOf(file))} />
                Viewed
              </label>
            }
          />
        ))}
      </div>
    </div>
  );
}

const fileOf = (remark: Remark): string | null =>
  remark.kind === "finding" ? remark.finding.file : remark.comment.file;

/** The findings of the last run of each gate; of one wave, or of all. */
function findingsOf(runs: readonly ApiType<"GateRun">[], wave: number | undefined): Remark[] {
  const last = new Map<string, ApiType<"GateRun">>();
  for (const run of runs) if (wave === undefined || run.wave === wave) last.set(`${run.wave} ${run.gate}`, run);
  return [...last.values()].flatMap(({ findings }) =>
    findings.map((finding) => ({ kind: "finding", finding }) as const),
  );
}
