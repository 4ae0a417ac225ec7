// Keyed list: elements are reused while their contents change, so that focus, selection
// and scroll position are kept.

//: Return update(items), which gives *parent* one child per item, in the order given.
//:
//: key(item) identifies an item; make(item) returns {node, update(item)}.
export function keyedList(parent, key, make) {
  const parts = new Map();
  return (items) => {
    const wanted = new Set(items.map(key));
    for (const [name, { node }] of parts) {
      if (!wanted.has(name)) {
        node.remove();
        parts.delete(name);
      }
    }
    items.forEach((item, index) => {
      const name = key(item);
      if (!parts.has(name)) parts.set(name, make(item));
      const part = parts.get(name);
      part.update(item);
      if (parent.children[index] !== part.node) {
        parent.insertBefore(part.node, parent.children[index] ?? null);
      }
    });
  };
}
