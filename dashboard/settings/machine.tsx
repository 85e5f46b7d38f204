import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { ApiError, api, dataOf } from "../api/request.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Icon } from "../parts/icon.tsx";
import { plainText } from "../parts/plain-text.ts";
import { Failure } from "../parts/states.tsx";

const stale = { staleTime: 60_000, refetchOnWindowFocus: false } as const;

/** The state of the server's machine, as `doctor` reports it. */
export function MachineChecks() {
  const look = (again: "true" | "false") => (): Promise<ApiType<"Doctor">> =>
    dataOf(api.GET("/api/v1/doctor", { params: { query: { again } } }));
  const query = useQuery({ queryKey: ["doctor"], queryFn: look("false"), ...stale });
  const { data } = query;
  return (
    <Looked
      id="machine"
      title="This machine"
      doing="Trying git, the database and the sandboxes…"
      query={query}
      again={look("true")}
    >
      {data?.checks.map(({ name, ok, needed, detail, remedy }) => (
        <Line key={name} name={name} tone={ok ? "good" : needed ? "bad" : "wait"} detail={plainText(detail)}>
          {remedy !== null && <Remedy text={remedy} />}
        </Line>
      ))}
    </Looked>
  );
}

/** Which agents can work here, tried in a sandbox. */
export function AgentChecks() {
  const look = (again: "true" | "false") => (): Promise<ApiType<"Agents">> =>
    dataOf(api.GET("/api/v1/agents", { params: { query: { again } } }));
  const query = useQuery({ queryKey: ["agents"], queryFn: look("false"), ...stale });
  const { data } = query;
  return (
    <Looked
      id="agents"
      title={data === undefined ? "Agents" : `Agents in the sandbox ${data.sandbox}`}
      doing="Starting each agent in a sandbox…"
      query={query}
      again={look("true")}
    >
      {data?.untried != null && (
        <Line name="No agent could be tried" tone="bad" detail={plainText(data.untried.what)}>
          <Remedy text={data.untried.remedy} />
        </Line>
      )}
      {data?.agents.map(({ name, title, command, installed, greeting, signedInWith, lacks }) => (
        <Line
          key={name}
          name={title}
          tone={lacks.length === 0 && greeting?.answers === true ? "good" : "wait"}
          detail={
            <>
              {greeting?.answers === true ? `answers${installed === null ? "" : `, version ${installed}`}` : null}
              {signedInWith.length > 0 && ` · models by ${signedInWith.join(", ")}`}
              {command !== null && <code className="faint"> {command}</code>}
            </>
          }
        >
          {lacks.map(({ what, remedy }) => (
            <div key={what}>
              <span className="soft">{plainText(what)}</span>
              <Remedy text={remedy} />
            </div>
          ))}
        </Line>
      ))}
    </Looked>
  );
}

interface LookedProps<Found> {
  readonly id: string;
  readonly title: string;
  readonly doing: string;
  readonly query: { readonly data: Found | undefined; readonly error: unknown; readonly isFetching: boolean };
  readonly again: () => Promise<Found>;
  readonly children: ReactNode;
}

function Looked<Found>({ id, title, doing, query, again, children }: LookedProps<Found>) {
  const client = useQueryClient();
  const key = { machine: "doctor", agents: "agents" }[id] ?? id;
  // Not every server can look at its machine.
  if (query.error instanceof ApiError && query.error.status === 404) return null;
  return (
    <section className="stack" aria-labelledby={id}>
      <div className="row">
        <h2 id={id} className="grow">
          {title}
        </h2>
        <button
          type="button"
          className="button"
          disabled={query.isFetching}
          onClick={() =>
            void client.fetchQuery({ queryKey: [key], queryFn: again, staleTime: 0 }).catch(() => undefined)
          }
        >
          {query.isFetching ? "Trying…" : "Try again"}
        </button>
      </div>
      <Failure error={query.error} />
      {query.data === undefined ? (
        query.error === null && (
          <p className="small soft" role="status">
            {doing}
          </p>
        )
      ) : (
        <ul className="card list">{children}</ul>
      )}
    </section>
  );
}

interface LineProps {
  readonly name: string;
  readonly tone: "good" | "wait" | "bad";
  readonly detail: ReactNode;
  readonly children?: ReactNode;
}

function Line({ name, tone, detail, children }: LineProps) {
  return (
    <li className="list-item check-line" data-tone={tone}>
      <Icon name={tone === "good" ? "check" : "close"} />
      <span className="hidden">{tone === "good" ? "works" : tone === "bad" ? "missing, needed" : "missing"}</span>
      <div className="grow small">
        <strong>{name}</strong> <span className="soft">{detail}</span>
        {children}
      </div>
    </li>
  );
}

/** How to get what is missing; a command in it can be copied. */
function Remedy({ text }: { readonly text: string }) {
  const command = /^`?((?:wavesmith|npm|sudo|apt-get|docker|export) [^`;,]+)`?$/.exec(text)?.[1];
  return (
    <div className="row wrap remedy">
      <span>{plainText(text)}</span>
      {command !== undefined && <CopyButton text={command} label="Copy" />}
    </div>
  );
}
