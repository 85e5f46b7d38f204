import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Icon } from "./icon.tsx";

const route = getRouteApi("/builds/$id");

interface SidePanelProps {
  readonly title: ReactNode;
  readonly label: string;
  readonly children: ReactNode;
}

/** Shows the selected item beside the build, or above it on narrow screens. Escape closes it. */
export function SidePanel({ title, label, children }: SidePanelProps) {
  const navigate = route.useNavigate();
  const close = (): void =>
    void navigate({ search: ({ view }) => (view === undefined ? {} : { view }), replace: true, resetScroll: false });
  return (
    <aside className="side-panel" aria-label={label}>
      <div className="side-head row">
        <div className="grow">{title}</div>
        <button type="button" className="button quiet" aria-label="Close the panel" onClick={close}>
          <Icon name="close" />
        </button>
      </div>
      {children}
    </aside>
  );
}
