// Whether an element is in the viewport, or within MARGIN of it.
import { useLayoutEffect, useState } from "preact/hooks";

const MARGIN = "300px"; // so that content is ready before it scrolls into view

const watched = new Map(); // element -> callback
let observer = null;

// Calls callback(visible) at the start and with every change. Returns a function that ends it.
export function watchVisible(element, callback) {
  observer ??= new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) watched.get(target)?.(isIntersecting);
  }, { rootMargin: MARGIN, scrollMargin: MARGIN });
  watched.set(element, callback);
  observer.observe(element);
  return () => {
    watched.delete(element);
    observer.unobserve(element);
  };
}

// [whether it has ever been visible, whether it is visible now]
export function useVisible(ref) {
  const [state, setState] = useState([false, false]);
  useLayoutEffect(() => watchVisible(ref.current, (visible) => setState(([seen]) => [seen || visible, visible])), []);
  return state;
}
