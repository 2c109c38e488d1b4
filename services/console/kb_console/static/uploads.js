// Uploads: files that are chosen or dropped become a queue, which the browser keeps until each file was sent. No inline handlers, no eval.
"use strict";

// A browser has six connections to a host: the list of the page needs one while files are sent.
const UPLOADS_AT_ONCE = 3;
const KEPT_FOR_MS = 24 * 3600 * 1000;
const form = document.getElementById("upload");
const list = document.getElementById("uploads");
const progress = document.getElementById("upload-progress");
const unseen = document.getElementById("uploads-unseen");
const endings = form?.dataset.endings.split(" ");
const largest = Number(form?.dataset.maxBytes);
const unsent = [];
const dropped = [];
const followed = new Map();
let sending = 0;

// The queue outlives a reload: IndexedDB keeps files, with their content. Where it can't (no room, or a window that keeps
// nothing), it keeps their names, and leaving the page asks first.
const stored = new Promise((resolve) => {
  const opening = indexedDB.open("kb-console", 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("uploads", { keyPath: "id" });
  opening.onsuccess = () => resolve(opening.result);
  opening.onerror = opening.onblocked = () => resolve(null);
});

async function inStore(use) {
  const database = await stored;
  if (!database) return null;
  return new Promise((resolve) => {
    const transaction = database.transaction("uploads", "readwrite");
    const asked = use(transaction.objectStore("uploads"));
    transaction.oncomplete = () => resolve(asked.result ?? true);
    transaction.onabort = transaction.onerror = () => resolve(null);
  }).catch(() => null);
}

class Upload {
  constructor({ id = crypto.getRandomValues(new Uint32Array(3)).join("-"), at = Date.now(), file, path, fields }) {
    Object.assign(this, { id, at, file, path, fields, isKept: false });
    this.name = document.createElement("bdi");
    this.name.textContent = path;
    this.bar = Object.assign(document.createElement("progress"), { max: 1, value: 0 });
    this.bar.setAttribute("aria-label", `Upload of ${path}`);
    this.outcome = Object.assign(document.createElement("span"), { textContent: "waiting" });
    this.item = document.createElement("li");
    this.item.append(this.name, " ", this.bar, " ", this.outcome);
    list.append(this.item);
  }

  // Keeps the file, or only its name.
  async keep() {
    const entry = { id: this.id, at: this.at, action: form.action, path: this.path, fields: this.fields };
    this.isKept = (await inStore((store) => store.put({ ...entry, file: this.file }))) !== null;
    if (!this.isKept) await inStore((store) => store.put(entry));
  }

  forget() {
    return inStore((store) => store.delete(this.id));
  }

  // Returns why the file can't be sent, as far as that can be told here.
  refusal() {
    if (!this.file) return "It was not sent before the page was left, and this browser could not keep it. Choose it again.";
    const ending = /\.[^./]+$/.exec(this.file.name)?.[0].toLowerCase() ?? "";
    if (!endings.includes(ending)) return ending ? `Files of the type ${ending} can't be read. Leave it out, or save it in another format.` : "It has no type at the end of its name, such as .pdf.";
    if (this.file.size > largest) return `It has ${inMegabytes(this.file.size)}, and ${inMegabytes(largest)} can be uploaded here. Split it, or push it on the command line, which takes larger ones.`;
    return null;
  }

  send() {
    const request = new XMLHttpRequest();
    const body = new FormData();
    for (const [name, value] of this.fields) body.append(name, value);
    body.set("file", this.file);
    if (this.file.webkitRelativePath || this.path.includes("/")) body.set("path", this.path);
    this.outcome.textContent = "";
    request.upload.onprogress = (step) => (this.bar.value = step.total ? step.loaded / step.total : 0);
    request.upload.onload = () => (this.outcome.textContent = "being read");
    request.onloadend = () => this.end(request);
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "application/json");
    request.send(body);
  }

  end({ status, responseText }) {
    sending -= 1;
    this.bar.remove();
    let answer = {};
    try { answer = JSON.parse(responseText); } catch { /* not from the console */ }
    // Without an answer, or without a session, the file stays in the queue for the next time that the page is shown.
    if (status === 0) this.fail("The connection was lost. Reload the page: it goes on with this file.");
    else if (status === 401) this.fail(answer.detail ?? "Your session has ended. Sign in again: this page then goes on with this file.");
    else {
      this.forget();
      this.isDone = true;
      if (status === 202) this.follow(answer);
      else this.fail(answer.detail ?? `The console could not take it (status ${status}). Try again later.`);
    }
    sendNext();
  }

  follow({ document_id, revision, detail, warnings }) {
    followed.set(document_id, { upload: this, revision, checksLeft: 300 });
    this.show(detail, "badge busy");
    for (const warning of warnings ?? []) {
      const note = Object.assign(document.createElement("small"), { textContent: `When it was read: ${warning}.` });
      this.item.append(note);
    }
  }

  fail(words) {
    this.bar.remove();
    this.show(words, "problem");
    // What needs somebody is at the top of the list.
    const before = [...list.children].find((item) => !item.querySelector(".problem, .bad") && item !== this.item);
    if (before) list.insertBefore(this.item, before);
  }

  show(words, kind) {
    this.outcome.textContent = words;
    this.outcome.className = kind;
    tellUploads();
  }

  link(address) {
    if (this.name.parentElement === this.item) {
      const link = document.createElement("a");
      this.name.replaceWith(link);
      link.append(this.name);
    }
    this.name.parentElement.href = address;
  }
}

const inMegabytes = (bytes) => `${(bytes / 1e6).toFixed(1)}\u202fMB`;

async function add(files) {
  const fields = [...new FormData(form)].filter(([, value]) => typeof value === "string");
  // Of a folder, files that its owner does not see are left out.
  const wanted = files.filter(({ path }) => !/(^|\/)\./.test(path));
  list.tabIndex = 0;
  await begin(wanted.map(({ file, path }) => new Upload({ file, path, fields })), (upload) => upload.keep());
}

async function begin(uploads, prepare) {
  for (const upload of uploads) {
    const refusal = upload.refusal();
    if (refusal) {
      upload.isDone = true;
      upload.forget();
      upload.fail(refusal);
      continue;
    }
    unsent.push(upload);
    await prepare(upload);
    sendNext();
  }
  tellUploads();
}

function sendNext() {
  while (sending < UPLOADS_AT_ONCE && unsent.length) {
    sending += 1;
    unsent.shift().send();
  }
}

function tellUploads() {
  const count = (kind) => list.querySelectorAll(kind).length;
  const files = list.children.length;
  const problems = count(".problem") + count(".bad");
  progress.textContent = files ? `${count(".good")} of ${files} ${files === 1 ? "file" : "files"} indexed${problems ? `, ${problems} with a problem` : ""}.` : "";
  tellUnseen();
}

function tellUnseen() {
  const end = list.scrollTop + list.clientHeight;
  const below = [...list.children].filter((item) => item.offsetTop - list.offsetTop + item.offsetHeight / 2 > end).length;
  unseen.textContent = below ? `${below} more below: scroll the list.` : "";
}

// Files of folders that were dropped, with their paths.
async function filesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, path: entry.fullPath.slice(1) }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return found;
    for (const each of entries) found.push(...(await filesOf(each)));
  }
}

async function filesOfDrop(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.length) return [...transfer.files].map((file) => ({ file, path: file.name }));
  return (await Promise.all(entries.map(filesOf))).flat();
}

async function followUploads() {
  const asked = [...followed].slice(0, 50);
  if (document.hidden || !asked.length) return;
  const query = new URLSearchParams(asked.map(([id, { revision }]) => ["uploaded", `${id}:${revision}`]));
  const answer = await fetch(`${list.dataset.states}?${query}`, { headers: { Accept: "application/json" } }).catch(() => null);
  for (const state of answer?.ok ? await answer.json() : []) {
    const { upload } = followed.get(state.document_id) ?? {};
    if (!upload) continue;
    upload.show(state.words, `badge ${state.tone}`);
    if (state.address) upload.link(state.address);
    if (state.is_final) followed.delete(state.document_id);
  }
  for (const [id, each] of asked) if (--each.checksLeft === 0) followed.delete(id);
  document.body.dispatchEvent(new Event("uploaded"));
}

async function goOn() {
  const entries = (await inStore((store) => store.getAll())) ?? [];
  const own = [];
  for (const entry of Array.isArray(entries) ? entries : []) {
    if (Date.now() - entry.at > KEPT_FOR_MS) inStore((store) => store.delete(entry.id));
    else if (entry.action === form.action) own.push(new Upload(entry));
  }
  await begin(own, (upload) => (upload.isKept = true));
}

if (form) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const files = dropped.splice(0);
    for (const input of form.querySelectorAll("input[type=file]")) {
      for (const file of input.files) files.push({ file, path: file.webkitRelativePath || file.name });
      input.value = "";
    }
    if (files.length) add(files);
    else progress.textContent = "Choose files first, or drop them on this page.";
  });
  // A file that misses the field would otherwise replace the page.
  for (const name of ["dragenter", "dragover"]) document.addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) form.classList.remove("over");
  });
  document.addEventListener("drop", async (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.remove("over");
    if (form.querySelector("button:disabled")) return;
    const files = await filesOfDrop(event.dataTransfer);
    if (form.reportValidity()) await add(files);
    else {
      dropped.push(...files);
      progress.textContent = `${files.length} ${files.length === 1 ? "file" : "files"} dropped: complete the form, then press Upload.`;
    }
  });
  list.addEventListener("scroll", tellUnseen);
  addEventListener("beforeunload", (event) => {
    if (dropped.length || unsent.some((upload) => !upload.isKept)) event.preventDefault();
  });
  // Until each uploaded document has its final state: a filter or a page of the list may hide it.
  setInterval(followUploads, 1500);
  // Of two windows with the page, one goes on with the queue.
  if (navigator.locks) navigator.locks.request("kb-console uploads", { ifAvailable: true }, (lock) => lock && goOn().then(() => new Promise(() => {})));
  else goOn();
}
