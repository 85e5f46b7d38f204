// What makes a valid entry. Used by the API and by the form, so both say the same.

export const colours = ["amber", "rose", "violet", "sky", "emerald"];
export const limits = { author: 60, place: 60, message: 1000 };

/** Reads what a visitor sent: `value` is clean, `problems` has a sentence for each field that is not right. */
export function checkEntry(input) {
  const value = {
    author: oneLine(input?.author),
    place: oneLine(input?.place),
    message: manyLines(input?.message),
    colour: input?.colour || colours[0],
  };
  const problems = {};
  if (value.author === "") problems.author = "Please tell us your name.";
  if (value.message === "") problems.message = "Please write a few words.";
  for (const [field, limit] of Object.entries(limits)) {
    const length = [...value[field]].length; // characters as people count them, so that 😀 is one
    if (length > limit) problems[field] = `At most ${limit} characters, please: these are ${length}.`;
  }
  if (!colours.includes(value.colour)) problems.colour = `Please choose one of ${colours.join(", ")}.`;
  return { value, problems };
}

/** Whether checkEntry() found anything. */
export const hasProblems = (problems) => Object.keys(problems).length > 0;

const oneLine = (text) => manyLines(text).replace(/\s+/g, " ");

function manyLines(text) {
  if (typeof text !== "string") return "";
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[\u0000-\u0009\u000b-\u001f\u007f\u202a-\u202e]/g, "") // control characters and text-direction tricks
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}
