const paths = {
  home: "M3 10.5 12 3l9 7.5M5 9v11h5v-6h4v6h5V9",
  builds: "M3 17c2.5 0 2.5-3 5-3s2.5 3 5 3 2.5-3 5-3 2 1.5 3 2M3 11c2.5 0 2.5-3 5-3s2.5 3 5 3 2.5-3 5-3 2 1.5 3 2",
  projects: "M3 6h7l2 2h9v11H3z",
  start: "M12 5v14M5 12h14",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M14 4v6M6 14v6",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l5 5",
  close: "M6 6l12 12M18 6 6 18",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  check: "M4 12.5 9.5 18 20 6.5",
  out: "M14 4h6v6M20 4l-9 9M18 14v6H4V6h6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  comment: "M4 5h16v11H10l-4 4v-4H4z",
  right: "M9 5l7 7-7 7",
  leave: "M10 4H4v16h6M9 12h12M17 8l4 4-4 4",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
} as const;

export type IconName = keyof typeof paths;

/** A line drawing; words beside it say what it means. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.9"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className="icon"
    >
      <path d={paths[name]} />
    </svg>
  );
}
