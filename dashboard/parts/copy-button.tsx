import { useState } from "react";
import { copyText } from "./clipboard.ts";
import { Icon } from "./icon.tsx";

/** Copies a text, such as a command. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [isCopied, setCopied] = useState<boolean | null>(null);
  const copy = async (): Promise<void> => {
    setCopied(await copyText(text));
    setTimeout(() => setCopied(null), 1_500);
  };
  return (
    <button type="button" className="button quiet" onClick={() => void copy()} title={text}>
      <Icon name={isCopied === true ? "check" : "copy"} />
      {isCopied === null ? label : isCopied ? "Copied" : "The browser refused"}
    </button>
  );
}
