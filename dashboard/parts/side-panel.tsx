import { getRouteApi } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { withNothing } from "../build/selection.ts";
import { Icon } from "./icon.tsx";

const route = getRouteApi("/builds/$id");

interface SidePanelProps {
  readonly title: ReactNode;
  readonly label: string;
  readonly children: ReactNode;
}

/**
 * Shows the selected item beside the build, or above it on narrow screens. Escape closes it. It takes
 * the focus and gives it back, so that the keyboard and screen readers follow.
 */
export function SidePanel({ title, label, children }: SidePanelProps) {
  const navigate = route.useNavigate();
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    panel.current?.focus({ preventScroll: true });
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  const close = (): void => void navigate({ search: withNothing, replace: true, resetScroll: false });
  return (
    <aside ref={panel} tabIndex={-1} className="side-panel" aria-label={label}>
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
