import { Link } from "@tanstack/react-router";
import type { ApiType } from "../../src/client/client.ts";
import { StatusDot } from "../parts/status.tsx";
import { durationText, useNow } from "../parts/times.tsx";
import { toneOf } from "../parts/tones.ts";
import { withGate, withTask } from "./selection.ts";

interface Span {
  readonly work: ApiType<"Work">;
  readonly wave: number;
  readonly asked: number;
  readonly from: number;
  readonly to: number;
}

const mostLines = 400;

/** A timeline of the build's attempts and gates, which shows where the time went. */
export function Timeline({
  build,
  graph,
}: {
  readonly build: ApiType<"Build">;
  readonly graph: ApiType<"BuildGraph">;
}) {
  const now = useNow(build.endedAt === null);
  const time = (text: string | null, otherwise: number): number => (text === null ? otherwise : Date.parse(text));
  const spans: Span[] = graph.waves.flatMap((wave) =>
    wave.work.map((work) => {
      const to = time(work.endedAt, now);
      const asked = Date.parse(work.createdAt);
      return { work, wave: wave.number, asked, from: time(work.startedAt, to), to };
    }),
  );
  if (spans.length === 0) return <p className="empty small">Nothing has run yet.</p>;
  const begin = Math.min(time(build.startedAt, now), ...spans.map(({ asked }) => asked));
  const end = Math.max(begin + 1_000, ...spans.map(({ to }) => to));
  const critical = new Set(graph.criticalPath);
  const lines = [...spans].sort((one, other) => one.asked - other.asked).slice(0, mostLines);
  return (
    <div className="stack">
      <WhereTimeWent spans={spans} />
      <div className="card timeline">
        <Scale ms={end - begin} />
        {lines.map((span) => (
          <Line
            key={span.work.id}
            buildId={build.id}
            span={span}
            isCritical={span.work.task !== null && critical.has(span.work.task)}
            scale={{ begin, end }}
          />
        ))}
        {spans.length > lines.length && (
          <p className="faint small">
            The first {mostLines} of {spans.length} attempts and gate runs.
          </p>
        )}
      </div>
    </div>
  );
}

interface LineProps {
  readonly buildId: string;
  readonly span: Span;
  readonly isCritical: boolean;
  /** The first and the last moment of the timeline. */
  readonly scale: { readonly begin: number; readonly end: number };
}

function Line({ buildId, span, isCritical, scale: { begin, end } }: LineProps) {
  const { work, wave, asked, from, to } = span;
  const share = (ms: number): string => `${(100 * ms) / (end - begin)}%`;
  return (
    <div className="timeline-line">
      <WorkName buildId={buildId} work={work} wave={wave} isCritical={isCritical} />
      <div className="timeline-track">
        <span
          className="timeline-wait"
          style={{ left: share(asked - begin), width: share(Math.max(0, from - asked)) }}
          title={`waited ${durationText(from - asked)}`}
        />
        <span
          className="timeline-bar"
          data-tone={toneOf(work.outcome ?? work.status)}
          data-kind={work.kind}
          data-critical={isCritical || undefined}
          style={{ left: share(from - begin), width: `max(3px, ${share(to - from)})` }}
          title={`${work.label}: ${work.outcome ?? work.status}, ${durationText(to - from)}`}
        />
      </div>
      <span className="tiny faint num">{durationText(to - from)}</span>
    </div>
  );
}

interface WorkNameProps extends Pick<LineProps, "buildId" | "isCritical"> {
  readonly work: ApiType<"Work">;
  readonly wave: number;
}

function WorkName({ buildId, work, wave, isCritical }: WorkNameProps) {
  const name = work.number > 1 ? `${work.label} · ${work.number}` : work.label;
  const status = <StatusDot status={work.outcome ?? work.status} />;
  const rest = (
    <>
      {status}
      <span className={isCritical ? "clip strong" : "clip"} title={isCritical ? "on the critical path" : undefined}>
        {name}
      </span>
      <span className="faint tiny">w{wave}</span>
    </>
  );
  if (work.kind === "gate" || work.task !== null) {
    return (
      <Link
        to="/builds/$id"
        params={{ id: buildId }}
        search={work.kind === "gate" ? withGate(work.id) : withTask(work.task ?? "")}
        className="row plain small timeline-name"
        resetScroll={false}
      >
        {rest}
      </Link>
    );
  }
  return <span className="row small timeline-name">{rest}</span>;
}

function Scale({ ms }: { readonly ms: number }) {
  return (
    <div className="timeline-line timeline-scale" aria-hidden="true">
      <span />
      <div className="timeline-track">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <span key={part} className="tiny faint num" style={{ left: `${100 * part}%` }}>
            {part === 0 ? "0 s" : durationText(part * ms)}
          </span>
        ))}
      </div>
      <span />
    </div>
  );
}

/** The sums: agents work side by side, so these may be longer than the build. */
function WhereTimeWent({ spans }: { readonly spans: readonly Span[] }) {
  const sum = (of: (span: Span) => number): number => spans.reduce((total, span) => total + of(span), 0);
  const parts = [
    { name: "agents", ms: sum(({ work, from, to }) => (work.kind === "task" ? to - from : 0)), tone: "run" },
    { name: "fixes", ms: sum(({ work, from, to }) => (work.kind === "fix" ? to - from : 0)), tone: "fix" },
    { name: "gates", ms: sum(({ work, from, to }) => (work.kind === "gate" ? to - from : 0)), tone: "good" },
    { name: "waiting", ms: sum(({ asked, from }) => Math.max(0, from - asked)), tone: "idle" },
  ].filter(({ ms }) => ms > 0);
  const total = parts.reduce((all, { ms }) => all + ms, 0);
  return (
    <div className="stack tight">
      <div className="bar thick">
        {parts.map(({ name, ms, tone }) => (
          <span key={name} data-tone={tone} style={{ width: `${(100 * ms) / total}%` }} />
        ))}
      </div>
      <div className="row wrap apart small soft">
        {parts.map(({ name, ms, tone }) => (
          <span key={name} className="row tight">
            <span className="dot" data-tone={tone} />
            {name} <span className="num">{durationText(ms)}</span>
          </span>
        ))}
        <span className="row tight">
          <span className="dot critical-dot" /> on the critical path
        </span>
      </div>
    </div>
  );
}
