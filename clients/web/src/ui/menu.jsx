// A button that opens a list of actions. items: [{label, run, danger, disabled, why}]
import { useEffect, useRef, useState } from "preact/hooks";

export function Menu({ label, children = "⋯", items }) {
  const [place, setPlace] = useState(null);
  const box = useRef();
  const button = useRef();
  useEffect(() => {
    if (!place) return undefined;
    box.current.querySelector("button:not([disabled])")?.focus();
    const away = (event) => box.current?.contains(event.target) || button.current?.contains(event.target) || setPlace(null);
    const moved = (event) => box.current?.contains(event.target) || setPlace(null);
    document.addEventListener("pointerdown", away);
    addEventListener("resize", moved);
    document.addEventListener("scroll", moved, true);
    return () => {
      document.removeEventListener("pointerdown", away);
      removeEventListener("resize", moved);
      document.removeEventListener("scroll", moved, true);
    };
  }, [place]);

  // Fixed to the window, so that no scrolling box cuts it off.
  const open = () => {
    const at = button.current.getBoundingClientRect();
    const below = innerHeight - at.bottom > 44 * items.length + 16;
    setPlace({ right: `${Math.max(4, innerWidth - at.right)}px`, ...(below ? { top: `${at.bottom + 4}px` } : { bottom: `${innerHeight - at.top + 4}px` }) });
  };
  const close = () => {
    setPlace(null);
    button.current.focus();
  };
  const keys = (event) => {
    if (event.key === "Escape") close();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...box.current.querySelectorAll("button:not([disabled])")];
    all[(all.indexOf(document.activeElement) + step + all.length) % all.length]?.focus();
  };
  return (
    <span class="menu">
      <button ref={button} type="button" class="button quiet" aria-haspopup="menu" aria-expanded={!!place} aria-label={label}
        onClick={() => (place ? setPlace(null) : open())}>{children}</button>
      {place && (
        <div ref={box} class="menu-list" role="menu" style={place} onKeyDown={keys}>
          {items.map((item) => (
            <button key={item.label} type="button" role="menuitem" class={item.danger ? "danger" : ""} disabled={item.disabled} title={item.why}
              onClick={() => { close(); item.run(); }}>{item.label}</button>
          ))}
        </div>
      )}
    </span>
  );
}
