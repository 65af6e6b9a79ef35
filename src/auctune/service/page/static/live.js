"use strict";
// Refreshes an open page: listens for notifications, and has htmx fetch the part #live again.
(() => {
  const main = document.querySelector("main");
  // Minimum interval between two refreshes, as charts take a while.
  const leastMs = 1000 * (main.dataset.least || 2);
  let source = null, timer = null, last = 0, lastId = null;

  const HOURS = { hour: "2-digit", minute: "2-digit" }, DAY = { month: "short", day: "numeric" };
  // A time of today has no date, as the footer says: tables of one day stay narrow enough for a
  // phone. Its title has the date.
  const local = (at) => {
    const now = new Date(), form = { ...HOURS, second: "2-digit" };
    if (at.toDateString() !== now.toDateString()) Object.assign(form, DAY);
    if (at.getFullYear() !== now.getFullYear()) form.year = "numeric";
    return at.toLocaleString(undefined, form);
  };
  // A label of an axis: the time, or the date where a day begins.
  const label = (at, day) => {
    if (day !== undefined && at.toDateString() !== day) return at.toLocaleDateString(undefined, DAY);
    return at.toLocaleTimeString(undefined, at.getSeconds() ? { ...HOURS, second: "2-digit" } : HOURS);
  };
  const localise = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      time.textContent = local(at);
      time.title = at.toLocaleString();
    }
    const days = new Map();
    for (const shown of root.querySelectorAll("[data-times]")) {
      const axis = shown.parentNode;
      shown.textContent = shown.dataset.times.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (text) => {
        const at = new Date(text);
        if (shown.localName === "title") return local(at);
        const written = label(at, days.get(axis));
        days.set(axis, at.toDateString());
        return written;
      });
    }
  };

  const refresh = () => {
    timer = null;
    last = Date.now();
    window.htmx.trigger("#live", "news");
  };
  const news = () => {
    if (timer === null) timer = setTimeout(refresh, Math.max(0, last + leastMs - Date.now()));
  };

  const listen = (address) => {
    // The last event id, so that a page that was hidden continues after it.
    const url = new URL(address, window.location.href);
    if (lastId) url.searchParams.set("after", lastId);
    source = new EventSource(url);
    source.onmessage = (event) => { lastId = event.lastEventId; news(); };
    source.addEventListener("over", () => { hush(); address = null; main.removeAttribute("data-news"); news(); });
  };
  const hush = () => { if (source !== null) { source.close(); source = null; } };

  const begin = () => {
    if (document.hidden) { hush(); return; }
    if (main.dataset.news && source === null) listen(main.dataset.news);
  };
  document.addEventListener("visibilitychange", () => { begin(); if (!document.hidden && main.matches("[data-news],[data-every]")) news(); });
  if (main.dataset.every) setInterval(() => { if (!document.hidden) news(); }, 1000 * main.dataset.every);
  begin();
  localise(document);

  // Elements with an id stay open and keep the focus.
  let open = [];
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    open = [...document.querySelectorAll("#live details[open][id]")].map((one) => one.id);
    // Without a session the response has no such part: the page loads the sign-in form.
    if (event.detail.xhr.status >= 400) hush();
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    localise(document);
  });
  // A reply of parts: each takes the place of the one before.
  const lastPart = (text) => text.split("<!--part-->").at(-2) ?? "";
  const warning = (text) => {
    const shown = document.createElement("p");
    shown.className = "wrong";
    shown.setAttribute("role", "alert");
    shown.textContent = text;
    return shown.outerHTML;
  };
  const inParts = (name, run) => document.body.addEventListener(name, (event) => {
    if (event.detail.target?.matches(".parts")) run(event.detail);
  });
  inParts("htmx:beforeSend", ({ xhr, target }) => {
    target.setAttribute("aria-busy", "true");
    target.textContent = "";
    xhr.addEventListener("progress", () => { if (xhr.status === 200) target.innerHTML = lastPart(xhr.responseText); });
  });
  inParts("htmx:beforeSwap", (detail) => {
    detail.shouldSwap = true;
    if (detail.xhr.status === 200) { detail.serverResponse = lastPart(detail.serverResponse); return; }
    const page = new DOMParser().parseFromString(detail.serverResponse, "text/html");
    detail.serverResponse = warning(page.querySelector("[role=alert]")?.textContent ?? "That did not work.");
  });
  inParts("htmx:sendError", ({ target }) => target.insertAdjacentHTML("afterbegin", warning("The connection was lost.")));
  inParts("htmx:sendAbort", ({ target }) => target.insertAdjacentHTML("afterbegin", warning("Stopped.")));
  inParts("htmx:afterRequest", ({ elt, target }) => {
    target.removeAttribute("aria-busy");
    for (const button of elt.querySelectorAll("button")) button.disabled = false;
  });
  document.addEventListener("click", (event) => {
    if (event.target.matches(".stop")) window.htmx.trigger(event.target.form, "htmx:abort");
  });
  // A form is sent once.
  document.addEventListener("submit", (event) => {
    for (const button of event.target.querySelectorAll("button[type=submit]")) setTimeout(() => { button.disabled = true; });
  });
  window.addEventListener("pageshow", () => { for (const button of document.querySelectorAll("button")) button.disabled = false; });
})();
