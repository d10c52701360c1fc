// Tabs with the keyboard controls of the ARIA pattern: arrows, Home, End.
//     <Tabs label="Views of the job" tabs={[["trace", "Traces"], …]} value={tab} onChange={setTab} />
import { useEffect, useRef } from "preact/hooks";

export function Tabs({ tabs, value, onChange, label }) {
  const ref = useRef();
  useEffect(() => {
    const tab = ref.current.querySelector('[aria-selected="true"]');
    if (tab) ref.current.scrollLeft = tab.offsetLeft - ref.current.offsetLeft - 40;
  }, [value]);
  const keys = (event) => {
    const at = tabs.findIndex(([key]) => key === value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    onChange(tabs[next][0]);
    event.currentTarget.children[next].focus();
  };
  return (
    <div ref={ref} class="tabs" role="tablist" aria-label={label} onKeyDown={keys}>
      {tabs.map(([key, name]) => (
        <button key={key} type="button" role="tab" id={`tab-${key}`} aria-selected={key === value}
          tabIndex={key === value ? 0 : -1} onClick={() => onChange(key)}>{name}</button>
      ))}
    </div>
  );
}

export function TabPanel({ name, children }) {
  return <div role="tabpanel" aria-labelledby={`tab-${name}`}>{children}</div>;
}
