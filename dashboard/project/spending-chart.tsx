import type { ApiType } from "../../src/client/client.ts";
import { numberText, usdText } from "../parts/money.tsx";

const colours = ["--accent", "--run", "--fix", "--wait", "--good", "--idle"] as const;
const dayMs = 24 * 3600 * 1000;
const height = 60;
const columnWidth = 10;

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
  const columns = dates.map((day) => ({
    day,
    sizes: names.map((name) => tokensIn((groups.get(name) ?? []).filter((part) => part.day === day))),
  }));
  const most = Math.max(1, ...columns.map(({ sizes }) => sumOf(sizes)));
  return (
    <>
      <svg
        className="chart"
        viewBox={`0 0 ${days * columnWidth} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Tokens by day; ${numberText(most)} on the busiest day`}
      >
        {columns.map(({ day, sizes }, column) => (
          <Bar key={day} day={day} sizes={sizes} most={most} x={column * columnWidth} />
        ))}
      </svg>
      <div className="row tiny faint num">
        <span className="grow">{dates[0]}</span>
        <span>{dates.at(-1)}</span>
      </div>
      <Legend groups={groups} />
    </>
  );
}

interface BarProps {
  readonly day: string;
  /** The tokens of each group. */
  readonly sizes: readonly number[];
  readonly most: number;
  readonly x: number;
}

function Bar({ day, sizes, most, x }: BarProps) {
  const shares = sizes.map((size) => (height * size) / most);
  return (
    <g>
      <title>{`${day}: ${numberText(sumOf(sizes))} tokens`}</title>
      <rect x={x} y={0} width={columnWidth} height={height} fill="transparent" />
      <rect x={x + 1.5} y={height - 0.6} width={7} height={0.6} fill="var(--line-strong)" />
      {shares.map((share, at) => (
        <rect
          // biome-ignore lint/suspicious/noArrayIndexKey: a group is its place
          key={at}
          x={x + 1.5}
          y={height - sumOf(shares.slice(0, at + 1))}
          width={7}
          height={share}
          fill={`var(${colourAt(at)})`}
        />
      ))}
    </g>
  );
}

function Legend({ groups }: { readonly groups: ReadonlyMap<string, readonly ApiType<"SpendingPart">[]> }) {
  return (
    <ul className="legend tiny">
      {[...groups].map(([name, own], at) => {
        const usd = sumOf(own.map(({ knownUsd }) => knownUsd));
        return (
          <li key={name} className="row tight">
            <span className="swatch" style={{ background: `var(${colourAt(at)})` }} />
            <span>{name}</span>
            <span className="faint num">
              {usd > 0 && `${usdText(usd)}, `}
              {numberText(tokensIn(own))}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
const tokensIn = (parts: readonly ApiType<"SpendingPart">[]): number => sumOf(parts.map(({ tokens }) => tokens));
const colourAt = (index: number): string => colours[index] ?? "--idle";

/** The largest groups first; the rest of them as one. */
function groupsOf(
  parts: readonly ApiType<"SpendingPart">[],
  by: "role" | "model",
): Map<string, ApiType<"SpendingPart">[]> {
  const all = new Map<string, ApiType<"SpendingPart">[]>();
  for (const part of parts) all.set(part[by], [...(all.get(part[by]) ?? []), part]);
  const sorted = [...all].sort(([, one], [, other]) => tokensIn(other) - tokensIn(one));
  const kept = sorted.slice(0, sorted.length > colours.length ? colours.length - 1 : colours.length);
  const rest = sorted.slice(kept.length).flatMap(([, own]) => own);
  return new Map(rest.length === 0 ? kept : [...kept, ["others", rest]]);
}
