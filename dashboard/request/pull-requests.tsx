import type { ApiType } from "../../src/client/client.ts";
import { Icon } from "../parts/icon.tsx";
import { plainText } from "../parts/plain-text.ts";
import { Empty } from "../parts/states.tsx";
import { StatusBadge } from "../parts/status.tsx";
import { Ago } from "../parts/times.tsx";

/** The pull requests of a build, each with the forge's checks and the commits that we pushed. */
export function PullRequests({ requests }: { readonly requests: readonly ApiType<"PullRequest">[] }) {
  return requests.map((request) => (
    <section key={`${request.repo} ${request.branch}`} className="stack" aria-label={`Pull request in ${request.repo}`}>
      <div className="row wrap">
        <h2>
          {request.url === null ? (
            `Pull request in ${request.repo}`
          ) : (
            <a href={request.url} target="_blank" rel="noreferrer">
              {request.repo}#{request.number} <Icon name="out" size={13} />
            </a>
          )}
        </h2>
        <StatusBadge status={request.status} />
        {request.merge !== "off" && <span className="small soft">merge: {request.merge}</span>}
      </div>
      {request.problem !== null && (
        <div className="notice" data-tone="bad">
          {plainText(request.problem)} <span className="soft">{request.remedy}</span>
        </div>
      )}
      {request.checks.length > 0 && (
        <ul className="row wrap" aria-label="Checks at the forge">
          {request.checks.map(({ name, state, url }) => (
            <li key={name} className="row small">
              <StatusBadge status={state} />
              {url === null ? (
                plainText(name)
              ) : (
                <a href={url} target="_blank" rel="noreferrer">
                  {plainText(name)}
                </a>
              )}
            </li>
          ))}
        </ul>
      )}
      <Commits commits={request.commits} />
    </section>
  ));
}

function Commits({ commits }: { readonly commits: ApiType<"PullRequest">["commits"] }) {
  if (commits.length === 0) return <Empty title="Nothing has been pushed yet." />;
  return (
    <ol className="card list" aria-label="Commits">
      {commits.map(({ sha, title, author, at }) => (
        <li key={sha} className="list-item small">
          <span className="mono tiny faint">{sha.slice(0, 12)}</span>
          <span className="grow clip">{plainText(title)}</span>
          <span className="soft clip">{plainText(author)}</span>
          <span className="faint">
            <Ago time={at} />
          </span>
        </li>
      ))}
    </ol>
  );
}
