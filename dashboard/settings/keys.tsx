import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { CopyButton } from "../parts/copy-button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Failure, Shown } from "../parts/states.tsx";
import { TextField } from "../parts/text-field.tsx";
import { Ago } from "../parts/times.tsx";

/** The keys of the tenant: who may do what through the API and in this dashboard. */
export function Keys() {
  const [isMaking, setMaking] = useState(false);
  const keys = useQuery({
    queryKey: ["keys"],
    queryFn: async ({ signal }) => (await dataOf(api.GET("/api/v1/keys", { signal }))).items,
  });
  return (
    <section className="stack" aria-labelledby="keys">
      <div className="row">
        <h2 id="keys" className="grow">
          Keys
        </h2>
        <button type="button" className="button" onClick={() => setMaking(true)}>
          Create a key…
        </button>
      </div>
      <Shown query={keys} what="keys">
        {(items) =>
          items.length === 0 ? (
            <p className="small soft">No keys besides the server's own.</p>
          ) : (
            <ul className="card list">
              {items.map((key) => (
                <KeyLine key={key.id} shown={key} />
              ))}
            </ul>
          )
        }
      </Shown>
      {isMaking && <MakeKey onClose={() => setMaking(false)} />}
    </section>
  );
}

function KeyLine({ shown: { id, name, scope, status, createdAt, expiresAt } }: { readonly shown: ApiType<"Key"> }) {
  const revoke = useAction(["keys"], () => dataOf(api.DELETE("/api/v1/keys/{id}", { params: { path: { id } } })));
  return (
    <li className="list-item">
      <div className="grow">
        <span className="strong">{name}</span> <span className="chip">{scope}</span>
        <div className="tiny faint">
          {status}
          {createdAt != null && (
            <>
              {" · made "}
              <Ago time={createdAt} />
            </>
          )}
          {expiresAt != null && ` · until ${new Date(expiresAt).toLocaleDateString()}`}
        </div>
        <Failure error={revoke.error} />
      </div>
      {status === "active" && (
        <ActionButton action={revoke} given={undefined} tone="danger" label={`Revoke ${name}`}>
          Revoke
        </ActionButton>
      )}
    </li>
  );
}

type Scope = "read" | "build" | "admin";
const scopes: Readonly<Record<Scope, string>> = {
  read: "may look",
  build: "may also start and steer builds",
  admin: "may also make and revoke keys",
};

function MakeKey({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Scope>("build");
  const make = useAction(["keys"], () => dataOf(api.POST("/api/v1/keys", { body: { name: name.trim(), scope } })));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    make.mutate();
  };
  return (
    <Dialog title="Create a key" onClose={onClose}>
      {make.data !== undefined ? (
        <div className="stack">
          <p className="small soft">This is the only time that the key is shown.</p>
          <div className="command row">
            <code className="grow">{make.data.key}</code>
            <CopyButton text={make.data.key} label="Copy" />
          </div>
        </div>
      ) : (
        <form className="stack" onSubmit={submit}>
          <TextField label="Name" value={name} onChange={setName} />
          <fieldset className="stack small plain-fieldset">
            <legend>What it may do</legend>
            {(Object.keys(scopes) as Scope[]).map((one) => (
              <label key={one} className="row">
                <input type="radio" name="scope" checked={scope === one} onChange={() => setScope(one)} />
                <strong>{one}</strong> <span className="soft">{scopes[one]}</span>
              </label>
            ))}
          </fieldset>
          <Failure error={make.error} />
          <div className="buttons">
            <button type="submit" className="button primary" disabled={name.trim() === "" || make.isPending}>
              Create
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
