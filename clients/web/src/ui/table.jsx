// A virtual table: only visible rows are in the document, so that 52 580 rows are as fast as ten. At most
// ROWS_PER_FRAME rows are filled per frame; fast scrolling shows placeholders for a few frames.
//
//     <VirtualTable label="Parameters" columns={columns} count={n} row={(i) => rows[i]} onRange={load} />
//
// columns: [{key, label, title, width: "minmax(8rem, 1fr)", align: "right", render(row, i), hint(row), sort: true}]
// row(i) may return undefined for a row that is not loaded: it is drawn as a placeholder. Keep the identity of
// `columns` and `compact` between renders (outside the component, or useMemo): unchanged rows are then skipped.
// onRange(from, to) reports which rows are needed. `compact(row, i)` draws a row on a narrow screen.
// Without a rowKey, elements of rows that scroll out are reused for rows that scroll in: faster, but only for rows
// without state of their own such as an open menu. Below minWidth the table scrolls sideways.
import { Component } from "preact";
import { useEffect, useId, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

const OVERSCAN = 6; // rows rendered above and below the viewport
const STEP = 2; // the rendered range moves in steps of this many rows
const ROWS_PER_FRAME = 8; // rows filled per frame
const NARROW = "(max-width: 720px)";

export function useNarrow() {
  const [narrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const look = () => setNarrow(query.matches);
    query.addEventListener("change", look);
    return () => query.removeEventListener("change", look);
  }, []);
  return narrow;
}

// The visible range in whole steps; returns `old` if nothing rendered would change.
function viewAt(old, scrollTop, size, high) {
  const step = STEP * high;
  const top = Math.floor(scrollTop / step) * step;
  if (top === old?.top && size === old.size) return old;
  return { top, size };
}

function rowsIn({ top, size }, high, count, more = OVERSCAN) {
  return [Math.max(0, Math.min(Math.floor(top / high) - more, count - 1)), Math.min(count, Math.ceil((top + size) / high) + STEP + more)];
}

// The number of row elements: enough for all rows that are ever rendered at once.
const placesFor = (size, high) => Math.ceil(size / high) + 2 * (OVERSCAN + STEP);

// The row {i, data} that each element shows, or null.
class Places {
  #frame = null;
  #left = 0; // rows that can still be filled in this frame

  constructor(size) {
    this.held = new Array(size).fill(null);
  }

  // Assigns the rows `from` to `to` to elements, the visible ones (`first` to `end`) first. Returns whether some are
  // left for the next frame.
  take(row, [from, to], [first, end]) {
    const frame = document.timeline.currentTime;
    if (this.held.every((one) => one === null)) this.#left = Infinity;
    else if (frame !== this.#frame) this.#left = ROWS_PER_FRAME;
    this.#frame = frame;
    let more = false;
    const take = (i) => {
      const place = i % this.held.length, data = row(i), old = this.held[place];
      if (old?.i === i && old.data === data) return;
      if (this.#left-- > 0) this.held[place] = { i, data };
      else more = true;
    };
    for (let i = first; i < end; i++) take(i);
    for (let i = from; i < first; i++) take(i);
    for (let i = end; i < to; i++) take(i);
    return more;
  }
}

// Calls redraw in the next frame if rows are left to fill.
function useMore(more, redraw) {
  useEffect(() => {
    if (!more) return undefined;
    const frame = requestAnimationFrame(redraw);
    return () => cancelAnimationFrame(frame);
  });
}

// If the focused row scrolls out and its element is reused, the table takes the focus.
function keepFocus(box, from, to) {
  const row = document.activeElement?.closest(".vrow");
  if (!row || !box.contains(row)) return;
  const i = Number(row.getAttribute("aria-rowindex")) - 2;
  if (i < from || i >= to) box.focus({ preventScroll: true });
}

export function VirtualTable({
  label, columns, count, row, rowKey, rowClass, height = 30, compact, compactHeight = 84,
  onRange, onOpen, onToggle, sort, onSort, fill = false, empty = null, minWidth = "0",
}) {
  const narrow = useNarrow() && compact !== undefined;
  const high = narrow ? compactHeight : height;
  const ref = useRef();
  const id = useId();
  const places = useRef(null);
  const [, redraw] = useReducer((n) => n + 1, 0);
  const [view, setView] = useState({ top: 0, size: 600 });
  const [active, setActive] = useState(-1);

  useLayoutEffect(() => {
    const box = ref.current;
    let size = box.clientHeight, now = null;
    const look = () => {
      const next = viewAt(now, box.scrollTop, size, high);
      if (next === now) return;
      now = next;
      keepFocus(box, ...rowsIn(now, high, Infinity));
      setView(now);
    };
    look();
    box.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(() => {
      size = box.clientHeight;
      look();
    });
    observer.observe(box);
    return () => {
      box.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [high]);

  const [from, to] = rowsIn(view, high, count);
  useEffect(() => {
    if (to > from) onRange?.(from, to);
  }, [from, to, onRange]);

  const go = (i) => {
    const at = Math.max(0, Math.min(count - 1, i));
    setActive(at);
    const box = ref.current;
    const head = narrow ? 0 : height;
    if (at * high < box.scrollTop) box.scrollTop = at * high;
    else if ((at + 1) * high + head > box.scrollTop + box.clientHeight) box.scrollTop = (at + 1) * high + head - box.clientHeight;
  };
  const keys = (event) => {
    if (event.target !== event.currentTarget || !count) return;
    const page = Math.max(1, Math.floor(view.size / high) - 1);
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: count - 1 }[event.key];
    const current = active >= 0 ? row(active) : undefined;
    if (to !== undefined) go(to);
    else if (event.key === "Enter" && current && onOpen) onOpen(current, active);
    else if (event.key === " " && current && onToggle) onToggle(current, active);
    else return;
    event.preventDefault();
  };

  const template = columns.map((c) => c.width || "1fr").join(" ");
  const size = placesFor(view.size, high);
  if (rowKey || places.current?.held.length !== size) places.current = new Places(size);
  useMore(places.current.take(row, [from, to], rowsIn(view, high, count, 0)), redraw);
  const rows = places.current.held.map((one, place) => ({ ...one, place })).filter((one) => one.i < count);
  const inOrder = [...rows].sort((a, b) => a.i - b.i);
  const keyOf = ({ data, i, place }) => (!rowKey ? place : data === undefined ? `#${i}` : rowKey(data, i));
  const nameOf = ({ place }) => (rowKey ? undefined : `${id}-${place}`);
  const drawn = (rowKey ? inOrder : rows).map((one) => (
    <Row key={keyOf(one)} id={nameOf(one)} data={one.data} i={one.i} columns={columns} template={template} height={high}
      active={one.i === active} compact={narrow ? compact : undefined} extra={one.data && rowClass ? rowClass(one.data, one.i) : ""} onOpen={onOpen} setActive={setActive} />
  ));
  return (
    <div class={`vtable ${fill ? "fill" : ""} ${narrow ? "narrow" : ""}`} ref={ref} tabIndex={0} role="table" aria-label={label}
      aria-rowcount={count + 1} onKeyDown={keys} style={{ "--min": minWidth }}>
      {!narrow && (
        <div class="vhead" role="row" style={{ gridTemplateColumns: template, height: `${height}px` }}>
          {columns.map((c) => <Head key={c.key} column={c} sort={sort} onSort={onSort} />)}
        </div>
      )}
      {count === 0 ? empty : <div class="vbody" role="rowgroup" aria-owns={rowKey ? undefined : inOrder.map(nameOf).join(" ")} style={{ height: `${count * high}px` }}>{drawn}</div>}
    </div>
  );
}

function Head({ column, sort, onSort }) {
  const { key, label, title, align } = column;
  if (!column.sort || !onSort)
    return <span role="columnheader" class={align} title={title}>{label}</span>;
  const order = sort?.key === key ? (sort.down ? "descending" : "ascending") : "none";
  return (
    <span role="columnheader" class={align} aria-sort={order} title={title}>
      <button type="button" onClick={() => onSort(key)}>{label}{order === "none" ? "" : sort.down ? " ↓" : " ↑"}</button>
    </span>
  );
}

// Rendered only when something in it changed: most rows do not change while scrolling.
class Row extends Component {
  shouldComponentUpdate(next) {
    const now = this.props;
    return ["data", "i", "columns", "height", "active", "compact", "extra"].some((key) => now[key] !== next[key]);
  }

  render({ id, data, i, columns, template, height, active, compact, extra, onOpen, setActive }) {
    // Clicks on controls inside the row are ignored: rendering the row before a checkbox's change event would undo it.
    const open = (event) => {
      if (event.target.closest("a, button, input, label, select, summary")) return;
      setActive(i);
      if (data && onOpen) onOpen(data, i);
    };
    const style = { top: `${i * height}px`, height: `${height}px` };
    const name = `vrow ${data === undefined ? "hole" : ""} ${active ? "active" : ""} ${onOpen ? "opens" : ""} ${extra}`;
    if (compact)
      return <div class={name} id={id} role="row" aria-rowindex={i + 2} style={style} onClick={open}><div role="cell" class="vcompact">{data !== undefined && compact(data, i)}</div></div>;
    return (
      <div class={name} id={id} role="row" aria-rowindex={i + 2} style={{ ...style, gridTemplateColumns: template }} onClick={open}>
        {columns.map((c) => <span key={c.key} role="cell" class={c.align} title={data && c.hint?.(data)}>{data !== undefined && c.render(data, i)}</span>)}
      </div>
    );
  }
}
