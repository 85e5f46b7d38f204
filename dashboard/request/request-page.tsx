import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { diffQuery, gatesQuery, graphQuery } from "../api/queries.ts";
import { BuildShown } from "../build/build-shown.tsx";
import { Decision } from "../build/decision.tsx";
import { PartHead } from "../build/part-head.tsx";
import { filesOf, lineCounts } from "../changes/diff-view.tsx";
import { asWhole } from "../parts/as-whole.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Money } from "../parts/money.tsx";
import { Empty, Shown } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Checks } from "./checks.tsx";
import { PullRequests } from "./pull-requests.tsx";
import { requestState, requestWords } from "./request-state.ts";

const route = getRouteApi("/builds/$id/request");

/** A build or one of its waves, as a pull request would show it: its work, checks and changes. */
export function RequestPage() {
  const { id } = route.useParams();
  return <BuildShown id={id}>{(build) => <Request build={build} />}</BuildShown>;
}

function Request({ build }: { readonly build: ApiType<"Build"> }) {
  const { id, project, brief } = build;
  const { wave } = route.useSearch();
  const gates = useQuery(gatesQuery(id));
  const { label, status } = requestWords[requestState(build, wave)];
  return (
    <div className="stack">
      <PartHead buildId={id} project={project} part="Request">
        <StatusBadge status={status} label={label} />
      </PartHead>
      <WaveTabs build={build} />
      <Branch build={build} wave={wave} />
      <Decision build={build} />
      {brief !== undefined && <p className="brief soft small">“{brief}”</p>}
      <PullRequests requests={build.pullRequests ?? []} />
      <section className="stack" aria-labelledby="request-work">
        <h2 id="request-work">Work</h2>
        <Work build={build} wave={wave} />
      </section>
      <section className="stack" aria-labelledby="request-checks">
        <h2 id="request-checks">Checks</h2>
        <Shown query={gates} what="the checks">
          {(runs) => <Checks buildId={id} runs={wave === undefined ? runs : runs.filter((run) => run.wave === wave)} />}
        </Shown>
      </section>
      <section className="stack" aria-labelledby="request-files">
        <h2 id="request-files">Changed files</h2>
        <ChangedFiles build={build} wave={wave} />
      </section>
    </div>
  );
}

function WaveTabs({ build: { id, waves } }: { readonly build: ApiType<"Build"> }) {
  const options = [undefined, ...waves.map(({ number }) => number)];
  return (
    <nav className="tabs" aria-label="Which waves">
      {options.map((number) => (
        <Link
          key={number ?? "all"}
          to="/builds/$id/request"
          params={{ id }}
          search={number === undefined ? {} : { wave: number }}
          className="tab"
          activeOptions={asWhole}
        >
          {number === undefined ? "Whole build" : `Wave ${number}`}
        </Link>
      ))}
    </nav>
  );
}

/** From which branch to which, the commit, the cost and the preview. */
function Branch({ build, wave }: { readonly build: ApiType<"Build">; readonly wave: number | undefined }) {
  const { id, waves, repository, spent, preview } = build;
  const last = waves.findLast(({ commit }) => commit !== null);
  const shown = wave === undefined ? last : waves.find(({ number }) => number === wave);
  const branch = shown === undefined ? null : `wavesmith/${id}/wave-${shown.number}`;
  return (
    <div className="row wrap small soft">
      {branch === null ? (
        <span>No branch yet.</span>
      ) : (
        <span className="row wrap">
          <span className="mono clip">{branch}</span> <span aria-hidden="true">→</span>
          <span className="hidden">into</span> <span className="mono">main</span>
        </span>
      )}
      {shown?.commit != null && <span className="mono tiny faint">{shown.commit.slice(0, 12)}</span>}
      <Money spent={spent} />
      {preview?.url != null && (
        <a href={preview.url} target="_blank" rel="noreferrer">
          Open the preview of wave {preview.wave} <Icon name="out" size={13} />
        </a>
      )}
      {branch !== null && <CopyButton text={`git fetch ${repository} ${branch}`} label="Copy git fetch" />}
    </div>
  );
}

function Work({ build, wave }: { readonly build: ApiType<"Build">; readonly wave: number | undefined }) {
  const graph = useQuery(graphQuery(build.id));
  const titles = new Map(graph.data?.tasks.map((task) => [task.id, task.title]));
  const tasks = build.tasks.filter((task) => wave === undefined || task.wave === wave);
  if (tasks.length === 0) return <Empty title="No tasks are in it." />;
  return (
    <ul className="card list">
      {tasks.map((task) => {
        const title = titles.get(task.id);
        return (
          <li key={task.id} className="list-item row wrap">
            <StatusBadge status={task.status} />
            <Link to="/builds/$id" params={{ id: build.id }} search={{ task: task.id }} className="strong">
              {task.id}
            </Link>
            {title !== undefined && title !== task.id && <span className="small soft">{title}</span>}
            <span className="small faint end">
              {task.agent}
              {task.wave !== null && `, wave ${task.wave}`}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function ChangedFiles({ build, wave }: { readonly build: ApiType<"Build">; readonly wave: number | undefined }) {
  const { id: buildId, waves } = build;
  const isThere = wave !== undefined || waves.some(({ status }) => status === "passed");
  const diff = useQuery({ ...diffQuery(buildId, { wave }), enabled: isThere });
  if (!isThere) return <Empty title="Nothing is on main yet: choose a wave to see its changes." />;
  return (
    <Shown query={diff} what="the changed files">
      {(text) => <FileList buildId={buildId} wave={wave} text={text} />}
    </Shown>
  );
}

interface FileListProps {
  readonly buildId: string;
  readonly wave: number | undefined;
  readonly text: string;
}

function FileList({ buildId, wave, text }: FileListProps) {
  const files = useMemo(() => filesOf(text).map((file) => ({ name: file.name, ...lineCounts(file) })), [text]);
  if (files.length === 0) return <Empty title="No files have changed." />;
  return (
    <ul className="card list">
      {files.map(({ name, added, removed }) => (
        <li key={name} className="list-item row">
          <Link
            to="/builds/$id/changes"
            params={{ id: buildId }}
            search={wave === undefined ? {} : { wave }}
            hash={name}
            className="mono small grow clip"
          >
            {name}
          </Link>
          <span className="small num">
            <span className="added">+{added.toLocaleString("en-US")}</span>{" "}
            <span className="removed">−{removed.toLocaleString("en-US")}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}
