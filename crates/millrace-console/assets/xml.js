// Answers in XML: those of services that take forms.

/** The text of the first element of that name, or undefined. */
export function textOf(answer, tag) {
  return answer.querySelector(tag)?.textContent;
}

/** The element's own child of that name. */
export function childOf(element, tag) {
  return [...element.children].find(({ tagName }) => tagName === tag);
}
