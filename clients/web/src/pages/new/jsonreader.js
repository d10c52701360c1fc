// A JSON parser that keeps positions: errors have a line, a column and the same message in every browser, and
// the position of a value can be looked up by its JSON pointer.
//
//     readJson(text) -> { value, at: Map(pointer -> [start, end]) } or { error: { line, column, offset, message } }
import { pointerTo } from "./document.js";

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])/y;
const WORD = /[A-Za-z_][\w]*/y;
const DEPTH = 100;

class Fault extends Error {
  constructor(offset, message) {
    super(message);
    this.offset = offset;
  }
}

export function readJson(text) {
  const reader = new Reader(text);
  try {
    const value = reader.value("", 0);
    reader.space();
    if (reader.i < text.length) throw new Fault(reader.i, "unexpected text after the end of the document");
    return { value, at: reader.at };
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    const before = text.slice(0, fault.offset).split("\n");
    return { error: { line: before.length, column: before[before.length - 1].length + 1, offset: fault.offset, message: fault.message } };
  }
}

class Reader {
  constructor(text) {
    this.text = text;
    this.i = 0;
    this.at = new Map();
  }

  take(pattern) {
    pattern.lastIndex = this.i;
    const found = pattern.exec(this.text);
    if (found) this.i += found[0].length;
    return found ? found[0] : null;
  }

  space() {
    this.take(SPACE);
    if (this.text.startsWith("//", this.i) || this.text.startsWith("/*", this.i) || this.text[this.i] === "#") throw new Fault(this.i, "JSON does not allow comments");
  }

  value(pointer, depth) {
    this.space();
    const start = this.i;
    const sign = this.text[start];
    if (depth > DEPTH) throw new Fault(start, `nested too deeply: at most ${DEPTH} levels are allowed`);
    const value = sign === "{" ? this.object(pointer, depth) : sign === "[" ? this.array(pointer, depth) : sign === '"' ? this.string() : this.scalar();
    this.at.set(pointer, [start, this.i]);
    return value;
  }

  object(pointer, depth) {
    const out = {};
    this.members("}", "a name in double quotes", () => {
      const start = this.i;
      if (this.text[start] !== '"') throw new Fault(start, this.take(WORD) ? "names must be in double quotes" : "expected a name in double quotes");
      const key = this.string();
      if (Object.hasOwn(out, key)) throw new Fault(start, `duplicate name ${JSON.stringify(key)}`);
      this.space();
      if (this.text[this.i] !== ":") throw new Fault(this.i, `expected a colon after ${JSON.stringify(key)}`);
      this.i++;
      Object.defineProperty(out, key, { value: this.value(pointer + pointerTo(key), depth + 1), enumerable: true, writable: true, configurable: true });
    });
    return out;
  }

  array(pointer, depth) {
    const out = [];
    this.members("]", "a value", () => out.push(this.value(pointer + pointerTo(out.length), depth + 1)));
    return out;
  }

  // The members between brackets, separated by commas.
  members(close, what, one) {
    const open = this.i++;
    this.space();
    if (this.text[this.i] === close) {
      this.i++;
      return;
    }
    for (;;) {
      this.space();
      one();
      this.space();
      const sign = this.text[this.i];
      if (sign === close) break;
      if (sign === undefined) throw new Fault(this.i, `unexpected end: the ${this.text[open]} of line ${this.text.slice(0, open).split("\n").length} is not closed`);
      if (sign !== ",") throw new Fault(this.i, `expected a comma or ${close}`);
      const comma = this.i++;
      this.space();
      if (this.text[this.i] === close) throw new Fault(comma, `expected ${what} after this comma`);
    }
    this.i++;
  }

  string() {
    const start = this.i;
    const token = this.take(STRING);
    if (token !== null) return JSON.parse(token);
    const line = /[^\n]*/.exec(this.text.slice(start + 1))[0];
    throw new Fault(start, /(^|[^\\])"/.test(line) ? "invalid control character or escape in this string" : "this string has no closing quote");
  }

  scalar() {
    const start = this.i;
    const number = this.take(NUMBER);
    if (number !== null) return Number(number);
    const word = this.take(WORD);
    if (word === "true" || word === "false" || word === "null") return JSON.parse(word);
    const sign = this.text[start];
    if (sign === undefined) throw new Fault(start, "unexpected end: expected a value");
    if (sign === "'") throw new Fault(start, "strings must be in double quotes");
    if (word !== null) throw new Fault(start, `${word} is not a JSON value; strings must be in double quotes`);
    if (/[-+.\d]/.test(sign)) throw new Fault(start, "not a JSON number; write 12, -0.5 or 1e-4");
    throw new Fault(start, `unexpected ${sign}; expected a value`);
  }
}
