import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "../api/actions.ts";
import { sessionQuery } from "../api/queries.ts";
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
  const { signOut } = useSession();
  const theme = useTheme();
  const [isNotifying, setNotifying] = useState(areNotificationsOn);
  return (
    <>
      <PageHead title="Settings" page="Settings" />
      <div className="project-cards">
        <section className="card project-card">
          <h2>Signed in</h2>
          {session !== undefined && (
            <dl className="facts">
              <dt>Key</dt>
              <dd>{session.name}</dd>
              <dt>Tenant</dt>
              <dd>{session.tenant}</dd>
              <dt>May</dt>
              <dd>{session.scopes.join(", ")}</dd>
            </dl>
          )}
          <div className="row">
            <button type="button" className="button" onClick={() => signOut.mutate()}>
              Sign out
            </button>
          </div>
        </section>
        <section className="card project-card">
          <h2>This browser</h2>
          <div className="row wrap">
            <button type="button" className="button" onClick={toggleTheme}>
              Use the {theme === "dark" ? "light" : "dark"} theme
            </button>
            <button
              type="button"
              className="button"
              aria-pressed={isNotifying}
              onClick={() => void setNotifications(!isNotifying).then(setNotifying)}
            >
              {isNotifying ? "Stop desktop notifications" : "Notify me on the desktop"}
            </button>
          </div>
          <p className="tiny faint">
            {areNotificationsRefused()
              ? "This browser blocks notifications from this address. Allow them in its site settings."
              : "Notifications appear while this page is open but out of sight."}
          </p>
        </section>
        <section className="card project-card">
          <h2>Keyboard</h2>
          <dl className="facts">
            {shortcuts.map(([keys, does]) => (
              <div key={keys} style={{ display: "contents" }}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
      <Schedules maySteer={session?.scopes.includes("build") === true} />
      {session?.scopes.includes("admin") === true && (
        <>
          <Keys />
          <Tenants mayLimit={session.tenant === "default"} />
          {session.tenant === "default" && <GitHub />}
          {session.tenant === "default" && <ServerSettings />}
          <MachineChecks />
          <AgentChecks />
        </>
      )}
    </>
  );
}
