import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure, Shown } from "../parts/states.tsx";
import { TextField } from "../parts/text-field.tsx";

type Limit = "builds" | "tasks" | "sandboxes" | "usd";

const limits: Readonly<Record<Limit, string>> = {
  builds: "builds at once",
  tasks: "tasks at once",
  sandboxes: "running sandboxes",
  usd: "US dollars for models",
};
/** The present use that each limit is for. */
const uses: Readonly<Record<Limit, string>> = {
  builds: "open builds",
  tasks: "tasks at work",
  sandboxes: "running sandboxes",
  usd: "US dollars for models",
};
const names = Object.keys(limits) as Limit[];

/** The tenants of the server, what they use, and how much they may. */
export function Tenants({ mayLimit }: { readonly mayLimit: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const tenants = useQuery({
    queryKey: ["tenants"],
    queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/tenants", { signal }))).items,
  });
  const tenant = tenants.data?.find(({ id }) => id === chosen);
  return (
    <section className="stack" aria-labelledby="tenants">
      <h2 id="tenants">{mayLimit ? "Tenants and limits" : "Limits"}</h2>
      <Shown query={tenants} what="tenants">
        {(items) => (
          <ul className="card list">
            {items.map((one) => (
              <li key={one.id} className="list-item">
                <div className="grow">
                  <span className="strong">{one.name}</span>
                  <ul className="row wrap">
                    {names.map((name) => (
                      <li key={name} className="chip">
                        {usedText(one, name)} {uses[name]}
                      </li>
                    ))}
                  </ul>
                </div>
                {mayLimit && (
                  <button
                    type="button"
                    className="button"
                    aria-label={`Change the limits of ${one.name}`}
                    onClick={() => setChosen(one.id)}
                  >
                    Change…
                  </button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Shown>
      {tenant !== undefined && <LimitsDialog tenant={tenant} onClose={() => setChosen(null)} />}
    </section>
  );
}

function usedText({ use, limits: most }: ApiType<"Tenant">, name: Limit): string {
  const used = name === "usd" ? (use.usd ?? 0).toFixed(2) : String(use[name] ?? 0);
  return most[name] === null ? used : `${used} of ${most[name]}`;
}

interface LimitsDialogProps {
  readonly tenant: ApiType<"Tenant">;
  readonly onClose: () => void;
}

/** Reads a limit as it was typed; undefined if it is none of the three forms. */
function limitIn(text: string): number | null | "default" | undefined {
  if (text === "default") return "default";
  if (text === "none") return null;
  return /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
}

function LimitsDialog({ tenant, onClose }: LimitsDialogProps) {
  const [texts, setTexts] = useState(() =>
    Object.fromEntries(
      names.map((name) => [name, tenant.own.includes(name) ? String(tenant.limits[name] ?? "none") : "default"]),
    ),
  );
  const read = names.map((name) => [name, limitIn((texts[name] ?? "").trim())] as const);
  const set = useAction(["tenants"], () =>
    dataOf(
      api.PUT("/api/v1/tenants/{id}/limits", {
        params: { path: { id: tenant.name } },
        body: Object.fromEntries(read),
      }),
    ),
  );
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    set.mutate(undefined, { onSuccess: onClose });
  };
  return (
    <Dialog title={`Limits of ${tenant.name}`} onClose={onClose}>
      <form className="stack" onSubmit={submit}>
        <p className="small soft">
          A number; <code>none</code> for no limit; <code>default</code> for what the server's settings say.
        </p>
        {read.map(([name, limit]) => (
          <TextField
            key={name}
            label={`Most ${limits[name]}`}
            value={texts[name] ?? ""}
            aria-invalid={limit === undefined}
            onChange={(text) => setTexts({ ...texts, [name]: text })}
          />
        ))}
        <Failure error={set.error} />
        <div className="buttons">
          <button
            type="submit"
            className="button primary"
            disabled={set.isPending || read.some(([, limit]) => limit === undefined)}
          >
            Set these limits
          </button>
        </div>
      </form>
    </Dialog>
  );
}
