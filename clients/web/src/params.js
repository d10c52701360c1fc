// Parameter names: theta[1], U[3,7].

// "theta[1],U[3,7]" -> ["theta[1]", "U[3,7]"]: commas inside brackets are part of a name.
export function splitNames(text) {
  return (text || "").split(/,(?![^[]*\])/).map((name) => name.trim()).filter(Boolean);
}

export const joinNames = (names) => names.join(",");

// Text made safe for use as a file name.
export const fileName = (text) => text.replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^_+|_+$/g, "").slice(0, 60) || "plot";
