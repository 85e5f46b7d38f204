import { type ReactNode, useEffect, useRef } from "react";
import { Icon } from "./icon.tsx";

/** A question or a form above the page. Escape closes it. */
export function Dialog({
  title,
  onClose,
  children,
}: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    // A reader who opened a form wants to fill it in, not to close it.
    dialog?.querySelector<HTMLElement>("input, textarea, select")?.focus();
    return () => dialog?.close();
  }, []);
  // An effect that React runs twice closes the dialog and opens it again before the first event arrives.
  const closed = (): void => {
    if (element.current?.open !== true) onClose();
  };
  return (
    <dialog ref={element} onClose={closed} aria-label={title}>
      <div className="stack dialog">
        <div className="row">
          <h2 className="grow">{title}</h2>
          <button type="button" className="button quiet" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
