import { useState } from "react";
import { Icon } from "./icon.tsx";

/** Copies a text, such as a command. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  };
  return (
    <button type="button" className="button quiet" onClick={() => void copy()} title={text}>
      <Icon name={isCopied ? "check" : "copy"} />
      {isCopied ? "Copied" : label}
    </button>
  );
}
