import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure, Shown } from "../parts/states.tsx";
import { TextField } from "../parts/text-field.tsx";
import { Ago } from "../parts/times.tsx";

type SignIn = ApiType<"GitHubSignIn">;

/** How the server is signed in to GitHub, and the two ways to sign in. */
export function GitHub() {
  const [isConnecting, setConnecting] = useState(false);
  const signIn = useQuery({
    queryKey: ["github"],
    queryFn: ({ signal }) => dataOf(api.GET("/api/v1/github", { signal })),
  });
  return (
    <section className="stack" aria-labelledby="github">
      <div className="row">
        <h2 id="github" className="grow">
          GitHub
        </h2>
        {signIn.data !== undefined && signIn.data.source !== "settings" && (
          <button type="button" className="button" onClick={() => setConnecting(true)}>
            {signIn.data.source === null ? "Connect GitHub…" : "Connect again…"}
          </button>
        )}
      </div>
      <Shown query={signIn} what="GitHub">
        {(state) => <State state={state} />}
      </Shown>
      {isConnecting && signIn.data !== undefined && (
        <Connect webUrl={signIn.data.webUrl} onClose={() => setConnecting(false)} />
      )}
    </section>
  );
}

function State({ state }: { readonly state: SignIn }) {
  const { source, kind, login, rights, accounts, installUrl, problem, unfinished, webUrl } = state;
  return (
    <>
      {unfinished !== null && (
        <div className="notice" data-tone="wait" role="status">
          <strong>
            An App was being made <Ago time={unfinished.since} />, and its key may not have reached this server.
          </strong>
          <div className="soft">Please {unfinished.remedy}</div>
        </div>
      )}
      {problem !== null && (
        <div className="notice" data-tone="bad" role="alert">
          <strong>{problem.message}</strong>
          {problem.remedy !== null && <div className="soft">{problem.remedy}</div>}
        </div>
      )}
      {source === null ? (
        <p className="small soft">Not connected: plans cannot deliver to {new URL(webUrl).host}.</p>
      ) : (
        problem === null && (
          <dl className="card facts">
            <dt>Signed in as</dt>
            <dd>
              {login} ({kind === "app" ? "App" : "token"}
              {source === "settings" && ", from the server's settings"})
            </dd>
            <dt>May</dt>
            <dd>{rights.length === 0 ? "what its token allows; GitHub does not list it" : rights.join(", ")}</dd>
            {installUrl !== null && (
              <>
                <dt>Installed for</dt>
                <dd>
                  {accounts?.join(", ") || "nobody yet"}{" "}
                  <a href={installUrl} target="_blank" rel="noreferrer">
                    Install it
                  </a>
                </dd>
              </>
            )}
          </dl>
        )
      )}
    </>
  );
}

interface ConnectProps {
  readonly webUrl: string;
  readonly onClose: () => void;
}

function Connect({ webUrl, onClose }: ConnectProps) {
  return (
    <Dialog title="Connect GitHub" onClose={onClose}>
      <AppForm />
      <TokenForm webUrl={webUrl} onClose={onClose} />
    </Dialog>
  );
}

function AppForm() {
  const [organization, setOrganization] = useState("");
  const make = useAction(["github"], () =>
    dataOf(api.POST("/api/v1/github/app", { body: { organization: organization.trim() || null } })),
  );
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    make.mutate(undefined, { onSuccess: ({ page }) => location.assign(page) });
  };
  return (
    <form className="stack" onSubmit={submit}>
      <h3>As an App</h3>
      <p className="small soft">
        GitHub creates an App that only you can install. It reports gates as checks with notes on lines.
      </p>
      <TextField
        label="Organisation that owns it (empty: your own account)"
        value={organization}
        onChange={setOrganization}
      />
      <Failure error={make.error} />
      <div className="buttons">
        <button type="submit" className="button primary" disabled={make.isPending}>
          Create an App
        </button>
      </div>
    </form>
  );
}

function TokenForm({ webUrl, onClose }: ConnectProps) {
  const [token, setToken] = useState("");
  const use = useAction(["github"], () => dataOf(api.PUT("/api/v1/github/token", { body: { token: token.trim() } })));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    use.mutate(undefined, { onSuccess: onClose });
  };
  return (
    <form className="stack" onSubmit={submit}>
      <h3>With a token</h3>
      <p className="small soft">
        A{" "}
        <a href={`${webUrl}/settings/personal-access-tokens/new`} target="_blank" rel="noreferrer">
          fine-grained token
        </a>{" "}
        with Contents, Pull requests and Commit statuses, read and write.
      </p>
      <TextField label="Token" type="password" autoComplete="off" value={token} onChange={setToken} />
      <Failure error={use.error} />
      <div className="buttons">
        <button type="submit" className="button" disabled={token.trim() === "" || use.isPending}>
          Use this token
        </button>
      </div>
    </form>
  );
}
