import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { numberText, usdText } from "../parts/money.tsx";
import { Failure } from "../parts/states.tsx";
import { SpendingChart } from "./spending-chart.tsx";

const days = 30;

/** A project's spending in the last month, day by day, by role or by model. */
export function SpendingCard({ projectId }: { readonly projectId: string }) {
  const [by, setBy] = useState<"role" | "model">("role");
  const spending = useQuery({
    queryKey: ["spending", projectId],
    queryFn: async ({ signal }) => {
      const params = { path: { id: projectId }, query: { days } };
      return (await dataOf(api.GET("/api/v1/projects/{id}/spending", { params, signal }))).items;
    },
    refetchInterval: 10_000,
  });
  const parts = spending.data ?? [];
  const sum = (of: (part: ApiType<"SpendingPart">) => number): number => parts.reduce((all, part) => all + of(part), 0);
  const unpriced = sum(({ unpricedCalls }) => unpricedCalls);
  return (
    <section className="card project-card" aria-labelledby="spending-head">
      <div className="row">
        <h2 id="spending-head" className="grow">
          Spending
        </h2>
        {parts.length > 0 && (
          <button type="button" className="button quiet" onClick={() => setBy(by === "role" ? "model" : "role")}>
            By {by === "role" ? "model" : "role"}
          </button>
        )}
      </div>
      <Failure error={spending.error} />
      {spending.data !== undefined && parts.length === 0 && (
        <p className="small soft">No model was called in the last {days} days.</p>
      )}
      {parts.length > 0 && (
        <>
          <p>
            <strong className="num">{usdText(sum(({ knownUsd }) => knownUsd))}</strong>{" "}
            <span className="small soft">
              and {numberText(sum(({ tokens }) => tokens))} tokens in the last {days} days
              {unpriced > 0 && `, without ${unpriced} ${unpriced === 1 ? "call" : "calls"} of unknown price`}
            </span>
          </p>
          <SpendingChart parts={parts} by={by} days={days} />
        </>
      )}
    </section>
  );
}
