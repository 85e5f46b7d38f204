import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { projectsQuery } from "../api/queries.ts";
import { api, dataOf } from "../api/request.ts";
import { PageHead } from "../parts/page-head.tsx";
import { Failure } from "../parts/states.tsx";
import { examples } from "./examples.ts";
import { PlanWorkbench } from "./plan-workbench.tsx";

const route = getRouteApi("/start");
const draftKey = "wavesmith-draft";

/** Starts a build: from a plan, checked as the reader types, or from a description. */
export function StartPage() {
  const [from, setFrom] = useState<"plan" | "brief">("plan");
  return (
    <>
      <PageHead title="Start a build" page="Start" />
      <div className="tabs" role="tablist" aria-label="Start from">
        {(["plan", "brief"] as const).map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            className="tab"
            aria-selected={from === name}
            onClick={() => setFrom(name)}
          >
            {name === "plan" ? "From a plan" : "From a description"}
          </button>
        ))}
      </div>
      {from === "plan" ? <FromPlan /> : <FromBrief />}
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
  const projects = useQuery(projectsQuery).data ?? [];
  const start = useStart();
  const budget = usd.trim() === "" ? {} : { budget: { usd: Number(usd) } };
  return (
    <form
      className="stack start-brief"
      onSubmit={(event) => {
        event.preventDefault();
        start.mutate({ project: project.trim(), body: { brief: brief.trim(), ...budget } });
      }}
    >
      <p className="small soft">
        A planner reads your description and drafts a plan. You see its waves and approve it before anything runs.
      </p>
      <label className="stack small" style={{ gap: "0.3rem" }}>
        What do you want?
        <textarea
          className="field"
          style={{ minHeight: "9rem" }}
          placeholder="A guestbook with comments, in plain Node, that keeps them in a file"
          value={brief}
          onChange={({ target }) => setBrief(target.value)}
        />
      </label>
      <div className="row wrap">
        <label className="stack small grow" style={{ gap: "0.3rem" }}>
          Project
          <input
            className="field"
            list="projects"
            placeholder="guestbook"
            value={project}
            onChange={({ target }) => setProject(target.value)}
          />
          <datalist id="projects">
            {projects.map(({ id, name }) => (
              <option key={id} value={name} />
            ))}
          </datalist>
        </label>
        <label className="stack small" style={{ gap: "0.3rem", width: "10rem" }}>
          Budget in USD
          <input
            className="field"
            type="number"
            min="0"
            step="0.5"
            placeholder="no limit"
            value={usd}
            onChange={({ target }) => setUsd(target.value)}
          />
        </label>
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
