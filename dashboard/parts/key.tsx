/** The key of a button. Screen readers get it from `aria-keyshortcuts`, not as a part of its name. */
export function Key({ name }: { readonly name: string }) {
  return (
    <span className="key" aria-hidden="true">
      <kbd>{name}</kbd>
    </span>
  );
}
