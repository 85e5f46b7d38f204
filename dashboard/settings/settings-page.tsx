import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiType } from "../../src/client/client.ts";
import { useSession } from "../api/actions.ts";
import { sessionQuery } from "../api/queries.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { areNotificationsOn, areNotificationsRefused, setNotifications } from "../shell/notifications.ts";
import { toggleTheme, useTheme } from "../shell/theme.ts";
import { GitHub } from "./github.tsx";
import { Keys } from "./keys.tsx";
import { AgentChecks, MachineChecks } from "./machine.tsx";
import { Schedules } from "./schedules.tsx";
import { ServerSettings } from "./server-settings.tsx";
import { Tenants } from "./tenants.tsx";

const shortcuts = [
  ["Ctrl K", "find a page, a build or a project"],
  ["j, k", "next and previous item or task"],
  ["a, d", "approve or allow, reject or deny"],
  ["Enter", "open the chosen item"],
  ["Esc", "close the panel"],
] as const;

/** This browser, the schedules, and for admins the keys, the limits and the server's state. */
export function SettingsPage() {
  const session = useQuery(sessionQuery).data;
  const isAdmin = session?.scopes.includes("admin") === true;
  const isOperator = isAdmin && session.tenant === "default";
  return (
    <>
      <PageHead title="Settings" page="Settings" />
      <div className="project-cards">
        {session !== undefined && <SignedIn session={session} />}
        <ThisBrowser />
        <Shortcuts />
      </div>
      <Schedules maySteer={session?.scopes.includes("build") === true} />
      {isAdmin && <Keys />}
      {isAdmin && <Tenants mayLimit={isOperator} />}
      {isOperator && <GitHub />}
      {isOperator && <ServerSettings />}
      {isAdmin && <MachineChecks />}
      {isAdmin && <AgentChecks />}
    </>
  );
}

function SignedIn({ session: { name, tenant, scopes } }: { readonly session: ApiType<"Session"> }) {
  const { signOut } = useSession();
  return (
    <section className="card project-card" aria-labelledby="signed-in">
      <h2 id="signed-in">Signed in</h2>
      <dl className="facts">
        <dt>Key</dt>
        <dd>{name}</dd>
        <dt>Tenant</dt>
        <dd>{tenant}</dd>
        <dt>May</dt>
        <dd>{scopes.join(", ")}</dd>
      </dl>
      <div className="row">
        <ActionButton action={signOut} given={undefined}>
          Sign out
        </ActionButton>
      </div>
    </section>
  );
}

function ThisBrowser() {
  const theme = useTheme();
  const [isNotifying, setNotifying] = useState(areNotificationsOn);
  return (
    <section className="card project-card" aria-labelledby="browser">
      <h2 id="browser">This browser</h2>
      <div className="row wrap">
        <button type="button" className="button" onClick={toggleTheme}>
          Use the {theme === "dark" ? "light" : "dark"} theme
        </button>
        <button type="button" className="button" onClick={() => void setNotifications(!isNotifying).then(setNotifying)}>
          {isNotifying ? "Stop desktop notifications" : "Notify me on the desktop"}
        </button>
      </div>
      <p className="tiny faint">
        {areNotificationsRefused()
          ? "This browser blocks notifications from this address. Allow them in its site settings."
          : "Notifications appear while this page is open but out of sight."}
      </p>
    </section>
  );
}

function Shortcuts() {
  return (
    <section className="card project-card" aria-labelledby="keyboard">
      <h2 id="keyboard">Keyboard</h2>
      <dl className="facts">
        {shortcuts.map(([keys, does]) => (
          <div key={keys} className="fact">
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
