/** Make an element. attributes: by name, null is left out; children: nodes and texts. */
export function makeElement(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...children);
  return element;
}

/** Set the attributes of an element; null is left out. */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes).filter((entry) => entry[1] !== null)) {
    element.setAttribute(name, value);
  }
}
