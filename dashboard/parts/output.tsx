/** A long text in its own box, which the keyboard can scroll. */
export function Output({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
    <pre className="output" tabIndex={0}>
      {text}
    </pre>
  );
}
