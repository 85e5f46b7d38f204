import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Empty } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Took } from "../parts/times.tsx";

/** The repository is on the server's machine, so an editor on another machine cannot open it. */
const isSameMachine = /^(?:localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname);

interface OpenElsewhereProps {
  readonly repository: string;
  readonly branch: string;
}

/** Opens a clone of a branch in VS Code, or copies the command that makes one. */
function OpenElsewhere({ repository, branch }: OpenElsewhereProps) {
  const asked = new URLSearchParams({ url: `file://${repository}`, ref: branch });
  return (
    <>
      {isSameMachine && (
        <a className="small" href={`vscode://vscode.git/clone?${asked}`}>
          Open in VS Code <Icon name="out" size={13} />
        </a>
      )}
      <CopyButton text={`git clone --branch ${branch} ${repository}`} label="Copy git clone" />
    </>
  );
}

interface AttemptsProps {
  readonly build: ApiType<"Build">;
  readonly detail: ApiType<"TaskDetail">;
}

/** Every attempt of a task, the last one first. */
export function Attempts({ build, detail }: AttemptsProps) {
  if (detail.eachAttempt.length === 0) return <Empty title="It has not started yet." />;
  return (
    <div className="side-body stack">
      <ul className="stack tight">
        {[...detail.eachAttempt].reverse().map(({ number, status, outcome, reason, commit, startedAt, endedAt }) => (
          <li key={number} className="finding">
            <div className="row wrap">
              <strong className="small">Attempt {number}</strong>
              <StatusBadge status={outcome ?? status} />
              <span className="tiny faint">
                <Took from={startedAt} to={endedAt} />
              </span>
              <span className="grow" />
              <Link
                to="/builds/$id"
                params={{ id: build.id }}
                search={({ part: _, ...search }) => ({ ...search, attempt: number })}
                className="button quiet"
                resetScroll={false}
              >
                What it did
              </Link>
            </div>
            {reason !== null && <div className="small soft">{reason}</div>}
            {commit !== null && (
              <div className="row wrap">
                <span className="mono tiny faint">{commit.slice(0, 12)}</span>
                <OpenElsewhere
                  repository={build.repository}
                  branch={`wavesmith/${build.id}/task/${detail.id}/${number}`}
                />
              </div>
            )}
          </li>
        ))}
      </ul>
      <CopyButton
        text={`wavesmith shell ${build.id} --task ${detail.id}`}
        label="Copy the command that opens a shell in its tree"
      />
    </div>
  );
}
