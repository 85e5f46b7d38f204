import type { ApiType } from "../../src/client/client.ts";
import { numberText, usdText } from "../parts/money.tsx";

const colours = ["--accent", "--run", "--fix", "--wait", "--good", "--idle"] as const;
const dayMs = 24 * 3600 * 1000;
const height = 60;

interface SpendingChartProps {
  readonly parts: readonly ApiType<"SpendingPart">[];
  readonly by: "role" | "model";
  readonly days: number;
}

/** Bars by day, in tokens: unlike money, they are known for every call. */
export function SpendingChart({ parts, by, days }: SpendingChartProps) {
  const groups = groupsOf(parts, by);
  const names = [...groups.keys()];
  const last = Date.now();
  const dates = Array.from({ length: days }, (_, index) =>
    new Date(last - (days - 1 - index) * dayMs).toISOString().slice(0, 10),
  );
  const tokensOf = (day: string, name: string): number =>
    (groups.get(name) ?? []).filter((part) => part.day === day).reduce((sum, { tokens }) => sum + tokens, 0);
  const totals = dates.map((day) => names.reduce((sum, name) => sum + tokensOf(day, name), 0));
  const most = Math.max(1, ...totals);
  return (
    <>
      <svg
        className="chart"
        viewBox={`0 0 ${days * 10} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Tokens by day; ${numberText(most)} on the busiest day`}
      >
        {dates.map((day, column) => {
          let top = height;
          return (
            <g key={day}>
              <title>{`${day}: ${numberText(totals[column] ?? 0)} tokens`}</title>
              <rect x={column * 10} y={0} width={10} height={height} fill="transparent" />
              <rect x={column * 10 + 1.5} y={height - 0.6} width={7} height={0.6} fill="var(--line-strong)" />
              {names.map((name, at) => {
                const size = (height * tokensOf(day, name)) / most;
                top -= size;
                return (
                  <rect
                    key={name}
                    x={column * 10 + 1.5}
                    y={top}
                    width={7}
                    height={size}
                    fill={`var(${colourAt(at)})`}
                  />
                );
              })}
            </g>
          );
        })}
      </svg>
      <div className="row tiny faint num">
        <span className="grow">{dates[0]}</span>
        <span>{dates.at(-1)}</span>
      </div>
      <ul className="legend tiny">
        {names.map((name, at) => {
          const own = groups.get(name) ?? [];
          const usd = own.reduce((sum, { knownUsd }) => sum + knownUsd, 0);
          const tokens = own.reduce((sum, part) => sum + part.tokens, 0);
          return (
            <li key={name} className="row" style={{ gap: "0.35rem" }}>
              <span className="swatch" style={{ background: `var(${colourAt(at)})` }} />
              <span>{name}</span>
              <span className="faint num">
                {usd > 0 && `${usdText(usd)}, `}
                {numberText(tokens)}
              </span>
            </li>
          );
        })}
      </ul>
    </>
  );
}

const colourAt = (index: number): string => colours[index] ?? "--idle";

/** The largest groups first; the rest of them as one. */
function groupsOf(
  parts: readonly ApiType<"SpendingPart">[],
  by: "role" | "model",
): Map<string, ApiType<"SpendingPart">[]> {
  const all = new Map<string, ApiType<"SpendingPart">[]>();
  for (const part of parts) all.set(part[by], [...(all.get(part[by]) ?? []), part]);
  const sum = (own: readonly ApiType<"SpendingPart">[]): number => own.reduce((total, { tokens }) => total + tokens, 0);
  const sorted = [...all].sort(([, one], [, other]) => sum(other) - sum(one));
  const kept = sorted.slice(0, sorted.length > colours.length ? colours.length - 1 : colours.length);
  const rest = sorted.slice(kept.length).flatMap(([, own]) => own);
  return new Map(rest.length === 0 ? kept : [...kept, ["others", rest]]);
}
