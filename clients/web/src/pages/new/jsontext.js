// Reads JSON and knows where everything is: a mistake has a line, a column and words that say what
// was expected there, the same in every browser; a value can be found again by its JSON pointer.
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
    if (reader.i < text.length) throw new Fault(reader.i, "the document ends before this");
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
    if (this.text.startsWith("//", this.i) || this.text.startsWith("/*", this.i) || this.text[this.i] === "#") throw new Fault(this.i, "JSON has no comments");
  }

  value(pointer, depth) {
    this.space();
    const start = this.i;
    const sign = this.text[start];
    if (depth > DEPTH) throw new Fault(start, "too deeply nested");
    const value = sign === "{" ? this.object(pointer, depth) : sign === "[" ? this.array(pointer, depth) : sign === '"' ? this.string() : this.scalar();
    this.at.set(pointer, [start, this.i]);
    return value;
  }

  object(pointer, depth) {
    const out = {};
    this.members("}", "a name in double quotes", () => {
      const start = this.i;
      if (this.text[start] !== '"') throw new Fault(start, this.take(WORD) ? "names stand in double quotes" : "a name in double quotes is needed here");
      const key = this.string();
      if (Object.hasOwn(out, key)) throw new Fault(start, `${JSON.stringify(key)} is there twice`);
      this.space();
      if (this.text[this.i] !== ":") throw new Fault(this.i, `a colon is needed after ${JSON.stringify(key)}`);
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

  // What stands between brackets, separated by commas.
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
      if (sign === undefined) throw new Fault(this.i, `the text ends, but the ${this.text[open]} of line ${this.text.slice(0, open).split("\n").length} is still open`);
      if (sign !== ",") throw new Fault(this.i, `a comma or ${close} is needed here`);
      const comma = this.i++;
      this.space();
      if (this.text[this.i] === close) throw new Fault(comma, `this comma has nothing after it: ${what} or no comma`);
    }
    this.i++;
  }

  string() {
    const start = this.i;
    const token = this.take(STRING);
    if (token !== null) return JSON.parse(token);
    const line = /[^\n]*/.exec(this.text.slice(start + 1))[0];
    throw new Fault(start, /(^|[^\\])"/.test(line) ? "this text has a control character or a backslash that means nothing" : "this text has no closing quote on its line");
  }

  scalar() {
    const start = this.i;
    const number = this.take(NUMBER);
    if (number !== null) return Number(number);
    const word = this.take(WORD);
    if (word === "true" || word === "false" || word === "null") return JSON.parse(word);
    const sign = this.text[start];
    if (sign === undefined) throw new Fault(start, "the text ends where a value is needed");
    if (sign === "'") throw new Fault(start, "texts stand in double quotes");
    if (word !== null) throw new Fault(start, `${word} is no JSON value: texts stand in double quotes, and there are true, false and null`);
    if (/[-+.\d]/.test(sign)) throw new Fault(start, "this is no number as JSON writes them: 12, -0.5, 1e-4");
    throw new Fault(start, `${sign} is not allowed here; a value is needed`);
  }
}
