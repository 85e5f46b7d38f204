import type { ApiType } from "../../src/client/client.ts";

const dollars = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 2 });
const cents = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 4 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export function usdText(usd: number): string {
  return usd > 0 && usd < 0.1 ? cents.format(usd) : dollars.format(usd);
}

export const numberText = (value: number): string => short.format(value);

/** The cost of model calls. A call without a known price is never shown as free. */
export function Money({ spent }: { readonly spent: ApiType<"Spent"> }) {
  if (spent.calls === 0) return <span className="faint">no model calls</span>;
  const known = usdText(spent.usd ?? spent.knownUsd);
  const calls = `${spent.calls} ${spent.calls === 1 ? "call" : "calls"}, ${spent.tokens.toLocaleString("en-US")} tokens`;
  const more = spent.usd === null ? `; ${spent.unpricedCalls} without a known price` : "";
  return (
    <span className="num" title={calls + more}>
      {spent.usd === null ? `${known} +?` : known}
      <span className="faint"> · {numberText(spent.tokens)} tokens</span>
    </span>
  );
}
