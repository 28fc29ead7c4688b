// What somebody has typed into forms: it is not to be lost with the session or with a queue.

const touched = new Set();

export function startTyped() {
  // Fields of no form are filters, which the address keeps.
  const note = ({ target }) => target.form && touched.add(target);
  document.addEventListener("input", note);
  document.addEventListener("change", note);
}

/** Whether there is any in a form that is still there. */
export function hasTyped() {
  for (const field of touched) {
    if (!field.isConnected) touched.delete(field);
    else if (field.value !== "") return true;
  }
  return false;
}
