import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";
import { buildsQuery, projectsQuery } from "../api/queries.ts";
import { Dialog } from "../parts/dialog.tsx";
import { StatusDot } from "../parts/status.tsx";
import { toggleTheme } from "./theme.ts";

interface Entry {
  readonly id: string;
  readonly label: string;
  readonly kind: string;
  readonly status?: string;
  run(): void;
}

/** Finds a page, a build, a project or an action by its name. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const entries = useEntries().filter(({ label, id }) => matches(`${label} ${id}`, text));
  const shown = entries.slice(0, 12);
  const choose = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    onClose();
    entry.run();
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setIndex((index + step + shown.length) % Math.max(1, shown.length));
    }
    if (event.key === "Enter") choose(shown[index]);
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        className="field"
        aria-label="Page, build, project or action"
        placeholder="Page, build, project or action"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette"
        aria-activedescendant={shown[index] === undefined ? undefined : `entry-${index}`}
        value={text}
        onKeyDown={press}
        onChange={({ target }) => {
          setText(target.value);
          setIndex(0);
        }}
      />
      <div id="palette" role="listbox" aria-label="Found" className="palette">
        {shown.map((entry, at) => (
          <div
            key={entry.id}
            id={`entry-${at}`}
            role="option"
            tabIndex={-1}
            aria-selected={at === index}
            className="palette-entry"
            onClick={() => choose(entry)}
            onKeyDown={press}
          >
            {entry.status !== undefined && <StatusDot status={entry.status} />}
            <span className="clip grow">{entry.label}</span>
            <span className="faint tiny">{entry.kind}</span>
          </div>
        ))}
        {shown.length === 0 && <div className="empty small">No matches.</div>}
      </div>
    </Dialog>
  );
}

const matches = (label: string, text: string): boolean =>
  text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => label.toLowerCase().includes(word));

function useEntries(): Entry[] {
  const navigate = useNavigate();
  const builds = useQuery(buildsQuery()).data ?? [];
  const projects = useQuery(projectsQuery).data ?? [];
  const page = (label: string, to: string): Entry => ({
    id: to,
    label,
    kind: "page",
    run: () => void navigate({ to }),
  });
  return [
    page("Home", "/"),
    page("Builds", "/builds"),
    page("Projects", "/projects"),
    page("Start a build", "/start"),
    page("Settings", "/settings"),
    { id: "theme", label: "Switch between dark and light", kind: "action", run: toggleTheme },
    ...builds.map(({ id, project, status }) => ({
      ...{ id, label: `${project} ${id}`, kind: "build", status },
      run: () => void navigate({ to: "/builds/$id", params: { id } }),
    })),
    ...projects.map(({ id, name }) => ({
      ...{ id, label: name, kind: "project" },
      run: () => void navigate({ to: "/projects/$id", params: { id } }),
    })),
  ];
}
