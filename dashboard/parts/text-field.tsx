import type { ComponentProps } from "react";

interface TextFieldProps extends Omit<ComponentProps<"input">, "className" | "onChange" | "value"> {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A line of text to type, with its label. */
export function TextField({ label, onChange, ...input }: TextFieldProps) {
  return (
    <label className="label">
      {label}
      <input className="field" onChange={({ target }) => onChange(target.value)} {...input} />
    </label>
  );
}
