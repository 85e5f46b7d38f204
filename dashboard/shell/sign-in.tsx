import { type FormEvent, useState } from "react";
import { useSession } from "../api/actions.ts";
import { Failure } from "../parts/states.tsx";
import { Mark } from "./mark.tsx";

/** The page for those who have not signed in. */
export function SignIn() {
  const [key, setKey] = useState("");
  const { signIn } = useSession();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    signIn.mutate(key.trim());
  };
  return (
    <main className="sign-in">
      <form className="card stack" onSubmit={submit}>
        <div className="row">
          <Mark size={28} />
          <h1>Wavesmith</h1>
        </div>
        <p className="soft small">
          On the machine that runs the server, <code>wavesmith open</code> signs you in without a key. Elsewhere, paste
          a key: <code>wavesmith serve</code> prints where its own is kept.
        </p>
        <label className="stack small" style={{ gap: "0.3rem" }}>
          Key
          <input
            className="field mono"
            type="password"
            autoComplete="current-password"
            value={key}
            onChange={({ target }) => setKey(target.value)}
          />
        </label>
        <Failure error={signIn.error} />
        <button type="submit" className="button primary" disabled={key.trim() === "" || signIn.isPending}>
          {signIn.isPending ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
