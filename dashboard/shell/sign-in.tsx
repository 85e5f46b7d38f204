import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useSession } from "../api/actions.ts";
import { signInProvidersQuery } from "../api/queries.ts";
import { Failure } from "../parts/states.tsx";
import { TextField } from "../parts/text-field.tsx";
import { Mark } from "./mark.tsx";

/** The page for those who have not signed in. */
export function SignIn() {
  const [key, setKey] = useState("");
  const { signIn } = useSession();
  const { data: providers = [] } = useQuery(signInProvidersQuery);
  const page = encodeURIComponent(`${location.pathname}${location.search}`);
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
        <TextField label="Key" type="password" autoComplete="current-password" value={key} onChange={setKey} />
        <Failure error={signIn.error} />
        <button type="submit" className="button primary" disabled={key.trim() === "" || signIn.isPending}>
          {signIn.isPending ? "Signing in…" : "Sign in"}
        </button>
        {providers.map(({ name, path }) => (
          <a key={name} className="button" href={`${path}?to=${page}`}>
            Sign in with {name}
          </a>
        ))}
      </form>
    </main>
  );
}
