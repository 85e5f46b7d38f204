import { useQuery } from "@tanstack/react-query";
import { Link, Outlet } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "../api/actions.ts";
import { inboxQuery, sessionQuery } from "../api/queries.ts";
import { ApiError } from "../api/request.ts";
import { Icon, type IconName } from "../parts/icon.tsx";
import { Failure, Loading } from "../parts/states.tsx";
import { useTabState } from "./favicon.ts";
import { usePaletteKey } from "./keyboard.ts";
import { Mark } from "./mark.tsx";
import { useNotifications } from "./notifications.ts";
import { Palette } from "./palette.tsx";
import { SignIn } from "./sign-in.tsx";
import { toggleTheme, useTheme } from "./theme.ts";

/** The frame around every page; asks for a key where there is no session. */
export function Shell() {
  const session = useQuery(sessionQuery);
  if (session.data !== undefined) return <Frame />;
  if (session.error === null) return <Loading what="Wavesmith" />;
  if (session.error instanceof ApiError && session.error.status === 401) return <SignIn />;
  return <Failure error={session.error} />;
}

const places: readonly { to: string; label: string; icon: IconName }[] = [
  { to: "/", label: "Home", icon: "home" },
  { to: "/builds", label: "Builds", icon: "builds" },
  { to: "/projects", label: "Projects", icon: "projects" },
  { to: "/start", label: "Start", icon: "start" },
  { to: "/settings", label: "Settings", icon: "settings" },
];

function Frame() {
  useTabState();
  useNotifications();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  usePaletteKey(() => setPaletteOpen(true));
  const inbox = useQuery(inboxQuery);
  const isLost = inbox.error instanceof ApiError && inbox.error.status === 0;
  return (
    <div className="frame">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <nav className="nav" aria-label="Main">
        <Link to="/" className="brand" aria-label="Wavesmith, home">
          <Mark />
          <span>Wavesmith</span>
        </Link>
        {places.map(({ to, label, icon }) => (
          <Link key={to} to={to} className="place" activeOptions={{ exact: to === "/" }}>
            <Icon name={icon} size={18} />
            <span>{label}</span>
            {to === "/" && (inbox.data ?? []).length > 0 && (
              <span className="count" data-tone="wait">
                {inbox.data?.length}
                <span className="hidden"> {inbox.data?.length === 1 ? "needs" : "need"} you</span>
              </span>
            )}
          </Link>
        ))}
        <NavFoot onPalette={() => setPaletteOpen(true)} />
      </nav>
      <main id="content" className="content" tabIndex={-1}>
        {isLost && (
          <div className="notice lost" data-tone="wait" role="status">
            The server does not answer. You see its last known state; the page continues by itself when it is back.
          </div>
        )}
        <Outlet />
      </main>
      <Announcement count={inbox.data?.length ?? 0} />
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
    </div>
  );
}

/** Tells a screen reader that something new waits for a person. */
function Announcement({ count }: { readonly count: number }) {
  return (
    <p className="hidden" role="status">
      {count > 0 && `${count} ${count === 1 ? "thing needs" : "things need"} you.`}
    </p>
  );
}

function NavFoot({ onPalette }: { readonly onPalette: () => void }) {
  const theme = useTheme();
  const { signOut } = useSession();
  return (
    <div className="nav-foot">
      <button type="button" className="place" onClick={onPalette}>
        <Icon name="search" size={18} />
        <span>Find</span>
        <kbd>Ctrl K</kbd>
      </button>
      <button type="button" className="place" onClick={toggleTheme}>
        <Icon name={theme === "dark" ? "sun" : "moon"} size={18} />
        <span>{theme === "dark" ? "Light" : "Dark"} theme</span>
      </button>
      <button type="button" className="place" onClick={() => signOut.mutate()}>
        <Icon name="leave" size={18} />
        <span>Sign out</span>
      </button>
    </div>
  );
}
