import type { Build } from "../api/types.ts";
import { numberText, usdText } from "../parts/money.tsx";

/** The spending of a project's latest builds, by build and by role. */
export function SpendingCard({ builds }: { readonly builds: readonly Build[] }) {
  const total = builds.reduce((sum, { spent }) => sum + spent.knownUsd, 0);
  const tokens = builds.reduce((sum, { spent }) => sum + spent.tokens, 0);
  const calls = builds.reduce((sum, { spent }) => sum + spent.calls, 0);
  const unpriced = builds.reduce((sum, { spent }) => sum + spent.unpricedCalls, 0);
  const byRole = new Map<string, number>();
  for (const { tasks } of builds)
    for (const { agent, spent } of tasks) byRole.set(agent, (byRole.get(agent) ?? 0) + spent.tokens);
  const roles = [...byRole].filter(([, sum]) => sum > 0).sort(([, one], [, other]) => other - one);
  const most = Math.max(1, ...roles.map(([, sum]) => sum));
  return (
    <section className="card project-card" aria-labelledby="spending-head">
      <h2 id="spending-head">Spending</h2>
      {calls === 0 ? (
        <p className="small soft">
          {builds.length === 0 ? "Nothing has been built yet." : "No model was called in its last builds."}
        </p>
      ) : (
        <>
          <p>
            <strong className="num">{usdText(total)}</strong>{" "}
            <span className="small soft">
              and {numberText(tokens)} tokens in{" "}
              {builds.length === 1 ? "its only build" : `its last ${builds.length} builds`}
              {unpriced > 0 && `, without ${unpriced} calls of unknown price`}
            </span>
          </p>
          <ul className="stack tiny" style={{ gap: "0.35rem" }}>
            {roles.slice(0, 8).map(([role, sum]) => (
              <li key={role} className="spending-line">
                <span className="clip">{role}</span>
                <span className="bar" data-tone="run">
                  <span style={{ width: `${(100 * sum) / most}%` }} />
                </span>
                <span className="num faint">{numberText(sum)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
