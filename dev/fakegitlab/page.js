// Keeps what is shown up to date while something may change. Without scripts the page loads itself again.
'use strict';
const every = 1000;
let tag = '';

async function update() {
  const main = document.getElementById('main');
  if (!main.hasAttribute('data-live')) return;
  try {
    const got = await fetch(location.href, { headers: tag ? { 'If-None-Match': tag } : {}, cache: 'no-store' });
    if (got.ok && getSelection().isCollapsed) show(main, new DOMParser().parseFromString(await got.text(), 'text/html'), got);
  } catch { /* the server is away: what is shown stays */ }
  setTimeout(update, every);
}

function show(main, next, got) {
  tag = got.headers.get('ETag') || '';
  const focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.id : '';
  const open = [...main.querySelectorAll('details')].map((d) => d.open);
  const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
  const fresh = next.getElementById('main');
  fresh.querySelectorAll('details').forEach((d, i) => { if (i < open.length) d.open = open[i]; });
  main.replaceChildren(...fresh.childNodes);
  main.toggleAttribute('data-live', fresh.hasAttribute('data-live'));
  document.title = next.title;
  const status = document.getElementById('status'), says = next.getElementById('status').textContent;
  if (status.textContent !== says) status.textContent = says;
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (atEnd && main.querySelector('.log')) scrollTo(0, document.documentElement.scrollHeight);
}

setTimeout(update, every);
