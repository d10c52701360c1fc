// Whether something is in sight, or nearly.
import { useLayoutEffect, useState } from "preact/hooks";

const MARGIN = "300px"; // ready before one has scrolled there

const watched = new Map(); // element -> callback
let observer = null;

// callback(near) with every change, and once in the beginning. Gives what ends it.
export function watchNear(element, callback) {
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

// [whether it ever was near, whether it is now]
export function useNear(ref) {
  const [state, setState] = useState([false, false]);
  useLayoutEffect(() => watchNear(ref.current, (near) => setState(([seen]) => [seen || near, near])), []);
  return state;
}
