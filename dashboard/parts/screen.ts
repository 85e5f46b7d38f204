import { useSyncExternalStore } from "react";

const narrow = matchMedia("(max-width: 760px)");

/** Whether the window is as narrow as a phone. */
export const useIsNarrow = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      narrow.addEventListener("change", listener);
      return () => narrow.removeEventListener("change", listener);
    },
    () => narrow.matches,
  );
