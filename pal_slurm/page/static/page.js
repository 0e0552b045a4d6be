// Keeps an open page fresh. Without it everything can be read all the same, by loading the page again.
// Texts come as JSON and are set as text; a part of a page is only ever replaced by the same part of the same page.
"use strict";
(() => {
  const root = document.documentElement.dataset.root, live = document.getElementById("live");
  const EACH_MS = 10000;
  let loaded = Date.now(), due = 0, busy = false;

  const reading = () => {
    const chosen = document.getSelection();
    return live.contains(document.activeElement) || (chosen && !chosen.isCollapsed);
  };

  async function renew() {
    due = 0;
    if (busy || document.hidden || reading()) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["live", "state"]) {
        const fresh = page.getElementById(id), old = document.getElementById(id);
        if (fresh && old && fresh.innerHTML !== old.innerHTML && !reading()) {
          const places = [...old.querySelectorAll(".scroll")].map(e => [e.scrollLeft, e.scrollTop]);
          old.replaceChildren(...fresh.childNodes);
          old.querySelectorAll(".scroll").forEach((e, i) => { if (places[i]) [e.scrollLeft, e.scrollTop] = places[i]; });
        }
      }
      loaded = Date.now();
    } catch { /* the next event tries again */ } finally { busy = false; }
  }

  function later() {
    if (!due) due = setTimeout(renew, Math.max(0, loaded + EACH_MS - Date.now()));
  }

  const source = new EventSource(root + "events");
  source.addEventListener("now", event => {
    const told = JSON.parse(event.data);
    for (const [name, count] of Object.entries(told.counts))
      document.querySelectorAll(`[data-now="${CSS.escape(name)}"]`).forEach(e => { e.textContent = count; });
    const taken = document.querySelector("[data-taken]");
    if (taken && told.taken) taken.textContent = new Date(told.taken * 1000).toTimeString().slice(0, 8);
    document.body.dataset.number = told.number;
    later();
  });
  source.addEventListener("edits", event => {
    const list = document.querySelector("[data-edits]");
    if (!list) return;
    document.querySelector("[data-none]")?.remove();
    for (const edit of JSON.parse(event.data)) {
      const item = document.createElement("li"), link = document.createElement("a");
      link.href = root + "job/" + encodeURIComponent(edit.job);
      link.textContent = "job " + edit.job;
      item.className = "new";
      item.append(link, " " + edit.words);
      list.prepend(item);
    }
    while (list.children.length > 12) list.lastElementChild.remove();
  });
})();
