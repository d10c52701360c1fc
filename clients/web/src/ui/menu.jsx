// A button that opens a list of actions. items: [{label, run, danger, disabled, why}]
// The list is a popover; Escape and a click elsewhere close it.
import { useEffect, useRef, useState } from "preact/hooks";

export function Menu({ label, children = "⋯", items }) {
  const [place, setPlace] = useState(null);
  const list = useRef();
  const button = useRef();
  useEffect(() => {
    if (!place) return undefined;
    list.current.showPopover();
    list.current.querySelector("button:not([disabled])")?.focus();
    const close = () => setPlace(null);
    addEventListener("resize", close);
    document.addEventListener("scroll", close, true);
    return () => {
      removeEventListener("resize", close);
      document.removeEventListener("scroll", close, true);
    };
  }, [place]);

  const open = () => {
    const at = button.current.getBoundingClientRect();
    const below = innerHeight - at.bottom > 34 * items.length + 16;
    setPlace({ right: `${Math.max(4, innerWidth - at.right)}px`, ...(below ? { top: `${at.bottom + 4}px` } : { bottom: `${innerHeight - at.top + 4}px` }) });
  };
  const keys = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...list.current.querySelectorAll("button:not([disabled])")];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length]?.focus();
  };
  return (
    <span class="menu">
      <button ref={button} type="button" class="button quiet" aria-haspopup="menu" aria-expanded={!!place} aria-label={label}
        onClick={() => (place ? setPlace(null) : open())}>{children}</button>
      {place && (
        <div ref={list} popover="auto" class="menu-list" role="menu" aria-label={label} style={place} onKeyDown={keys}
          onToggle={(event) => event.newState === "closed" && setPlace(null)}>
          {items.map((item) => (
            <button key={item.label} type="button" role="menuitem" class={item.danger ? "danger" : ""} disabled={item.disabled} title={item.why}
              onClick={() => { setPlace(null); button.current.focus(); item.run(); }}>{item.label}</button>
          ))}
        </div>
      )}
    </span>
  );
}
