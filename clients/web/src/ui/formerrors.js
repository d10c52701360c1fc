// Errors of a dialog: problem(pointer) is the message of one field, rest(...pointers) are the errors of no field.
import { useState } from "preact/hooks";

export function useFormErrors() {
  const [error, setError] = useState(null);
  const problem = (pointer) => error?.errors.find((e) => e.pointer.startsWith(pointer))?.detail;
  const rest = (...pointers) => (error ? (error.errors.length ? error.errors.filter((e) => !pointers.some((p) => e.pointer.startsWith(p))) : [{ pointer: "", detail: error.message }]) : []);
  return { setError, problem, rest };
}
