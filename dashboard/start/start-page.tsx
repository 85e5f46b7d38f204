import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { projectsQuery } from "../api/queries.ts";
import { api, dataOf } from "../api/request.ts";
import { asWhole } from "../parts/as-whole.ts";
import { PageHead } from "../parts/page-head.tsx";
import { Failure } from "../parts/states.tsx";
import { TextField } from "../parts/text-field.tsx";
import { examples } from "./examples.ts";
import { PlanWorkbench } from "./plan-workbench.tsx";

const route = getRouteApi("/start");
const draftKey = "wavesmith-draft";

/** Starts a build: from a plan, checked as the reader types, or from a description. */
export function StartPage() {
  const { from, project } = route.useSearch();
  return (
    <>
      <PageHead title="Start a build" page="Start" />
      <nav className="tabs" aria-label="Start from">
        {[undefined, "brief" as const].map((name) => (
          <Link
            key={name ?? "plan"}
            to="/start"
            search={{ ...(project === undefined ? {} : { project }), ...(name === undefined ? {} : { from: name }) }}
            className="tab"
            activeOptions={asWhole}
          >
            {name === undefined ? "From a plan" : "From a description"}
          </Link>
        ))}
      </nav>
      {from === "brief" ? <FromBrief /> : <FromPlan />}
    </>
  );
}

function useStart() {
  const navigate = useNavigate();
  return useMutation({
    mutationFn: ({ project, body }: { readonly project: string; readonly body: object }) =>
      dataOf(api.POST("/api/v1/builds", { body: { ...body, project } })),
    onSuccess: ({ id }) => navigate({ to: "/builds/$id", params: { id } }),
  });
}

const nameIn = (text: string): string => /^name:\s*["']?([^"'#\n]+)/m.exec(text)?.[1]?.trim() ?? "";

function FromPlan() {
  const { project } = route.useSearch();
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey) ?? examples[0].text);
  const start = useStart();
  const change = (next: string): void => {
    setText(next);
    sessionStorage.setItem(draftKey, next);
  };
  const name = project ?? nameIn(text);
  const head = (
    <div className="row wrap small">
      <span className="soft">Examples:</span>
      {examples.map((example) => (
        <button key={example.name} type="button" className="chip" onClick={() => change(example.text)}>
          {example.name}
        </button>
      ))}
    </div>
  );
  return (
    <PlanWorkbench text={text} onChange={change} head={head}>
      {(isSound) => (
        <>
          <Failure error={start.error} />
          <div className="row">
            <button
              type="button"
              className="button primary"
              disabled={!isSound || name === "" || start.isPending}
              onClick={() => start.mutate({ project: name, body: { plan: text } })}
            >
              {start.isPending ? "Starting…" : "Start this build"}
            </button>
            <span className="small soft">
              in project <strong>{name === "" ? "(the plan has no name)" : name}</strong>
            </span>
          </div>
        </>
      )}
    </PlanWorkbench>
  );
}

function FromBrief() {
  const search = route.useSearch();
  const [brief, setBrief] = useState("");
  const [project, setProject] = useState(search.project ?? "");
  const [usd, setUsd] = useState("");
  const start = useStart();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const budget = usd.trim() === "" ? {} : { budget: { usd: Number(usd) } };
    start.mutate({ project: project.trim(), body: { brief: brief.trim(), ...budget } });
  };
  return (
    <form className="stack start-brief" onSubmit={submit}>
      <p className="small soft">
        A planner reads your description and drafts a plan. You see its waves and approve it before anything runs.
      </p>
      <label className="label">
        What do you want?
        <textarea
          className="field brief-field"
          placeholder="A guestbook with comments, in plain Node, that keeps them in a file"
          value={brief}
          onChange={({ target }) => setBrief(target.value)}
        />
      </label>
      <div className="row wrap">
        <ProjectField project={project} onChange={setProject} />
        <BudgetField usd={usd} onChange={setUsd} />
      </div>
      <Failure error={start.error} />
      <div className="row">
        <button
          type="submit"
          className="button primary"
          disabled={brief.trim() === "" || project.trim() === "" || start.isPending}
        >
          {start.isPending ? "Starting…" : "Draft a plan"}
        </button>
      </div>
    </form>
  );
}

interface ProjectFieldProps {
  readonly project: string;
  readonly onChange: (project: string) => void;
}

/** The name of a project; those that exist are offered. */
function ProjectField({ project, onChange }: ProjectFieldProps) {
  const projects = useQuery(projectsQuery).data ?? [];
  return (
    <div className="grow">
      <TextField label="Project" list="projects" placeholder="guestbook" value={project} onChange={onChange} />
      <datalist id="projects">
        {projects.map(({ id, name }) => (
          <option key={id} value={name} />
        ))}
      </datalist>
    </div>
  );
}

function BudgetField({ usd, onChange }: { readonly usd: string; readonly onChange: (usd: string) => void }) {
  return (
    <div className="budget">
      <TextField
        label="Budget in USD"
        type="number"
        min="0"
        step="0.5"
        placeholder="no limit"
        value={usd}
        onChange={onChange}
      />
    </div>
  );
}
