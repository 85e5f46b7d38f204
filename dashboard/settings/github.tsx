import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { api, dataOf } from "../api/request.ts";
import { useAction } from "../api/use-action.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Failure, Shown } from "../parts/states.tsx";
import { Ago } from "../parts/times.tsx";

type SignIn = ApiType<"GitHubSignIn">;

/** How the server is signed in at GitHub, and the two ways to sign in. */
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
  const [organization, setOrganization] = useState("");
  const [token, setToken] = useState("");
  const make = useAction(["github"], () =>
    dataOf(api.POST("/api/v1/github/app", { body: { organization: organization.trim() || null } })),
  );
  const use = useAction(["github"], () => dataOf(api.PUT("/api/v1/github/token", { body: { token: token.trim() } })));
  const submitApp = (event: FormEvent): void => {
    event.preventDefault();
    make.mutate(undefined, { onSuccess: ({ page }) => location.assign(page) });
  };
  const submitToken = (event: FormEvent): void => {
    event.preventDefault();
    use.mutate(undefined, { onSuccess: onClose });
  };
  return (
    <Dialog title="Connect GitHub" onClose={onClose}>
      <form className="stack" onSubmit={submitApp}>
        <h3>As an App</h3>
        <p className="small soft">
          GitHub makes an App that only you can install. It reports gates as checks with notes on lines.
        </p>
        <label className="stack small" style={{ gap: "0.3rem" }}>
          Organisation that owns it (empty: your own account)
          <input className="field" value={organization} onChange={({ target }) => setOrganization(target.value)} />
        </label>
        <Failure error={make.error} />
        <div className="row wrap" style={{ justifyContent: "flex-end" }}>
          <button type="submit" className="button primary" disabled={make.isPending}>
            Make an App
          </button>
        </div>
      </form>
      <form className="stack" onSubmit={submitToken}>
        <h3>With a token</h3>
        <p className="small soft">
          A{" "}
          <a href={`${webUrl}/settings/personal-access-tokens/new`} target="_blank" rel="noreferrer">
            fine-grained token
          </a>{" "}
          with Contents, Pull requests and Commit statuses, read and write.
        </p>
        <label className="stack small" style={{ gap: "0.3rem" }}>
          Token
          <input
            className="field"
            type="password"
            autoComplete="off"
            value={token}
            onChange={({ target }) => setToken(target.value)}
          />
        </label>
        <Failure error={use.error} />
        <div className="row wrap" style={{ justifyContent: "flex-end" }}>
          <button type="submit" className="button" disabled={token.trim() === "" || use.isPending}>
            Use this token
          </button>
        </div>
      </form>
    </Dialog>
  );
}
