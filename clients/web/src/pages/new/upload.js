// Uploads a data file with XMLHttpRequest: fetch reports no upload progress.
import { ApiError } from "../../api.js";
import { session, signOut } from "../../store.js";

// A name that the daemon accepts: letters, digits, _ . - and no leading dot.
export function uploadName(name) {
  return name.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").replace(/[^A-Za-z0-9_.-]+/g, "_").replace(/^[._]+/, "").slice(-128).replace(/^[._]+/, "") || "data";
}

// progress(fraction) is called meanwhile. Rejects with an ApiError, or an AbortError after signal.
export function upload(name, file, { progress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const { token } = session.get();
    request.open("PUT", `/v1/datasets/${name}`);
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => {
      const body = parse(request.responseText);
      if (request.status < 300) resolve(body);
      else {
        if (request.status === 401 && token === session.get().token) signOut("The token is no longer valid.");
        reject(new ApiError(request.status, body ?? {}));
      }
    };
    request.onerror = () => reject(new ApiError(0, { detail: "the upload was interrupted" }));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
