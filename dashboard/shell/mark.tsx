/** Wavesmith's logo: two waves. */
export function Mark({ size = 22 }: { readonly size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 32 32"
      fill="none"
      stroke="var(--accent)"
      strokeWidth="3.2"
      strokeLinecap="round"
      aria-hidden="true"
    >
      <path d="M3 21c4 0 4-5 8-5s4 5 8 5 4-5 8-5" />
      <path d="M3 13c4 0 4-5 8-5s4 5 8 5 4-5 8-5" />
    </svg>
  );
}
