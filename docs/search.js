/* The search of the pages that docs/build.sh makes. mkdocs lists the sections; its own search fetches that list, which a page of a folder
 * (file://) may not, so that here it comes as a script. A name is found by any part of it, such as "append". */
(() => {
  const list = document.getElementById('mkdocs-search-results'), field = document.getElementById('mkdocs-search-query');
  if (!list) return; // another page, with a field that leads to this one
  const made = (tag, text, more) => Object.assign(document.createElement(tag), {textContent: text}, more);

  /* 0: not all words are there. The title counts most, and the reference more than other pages. */
  function worth(section, words) {
    const title = section.title.toLowerCase(), text = title + ' ' + section.text.toLowerCase();
    if (!words.every(word => text.includes(word))) return 0;
    const whole = words.join(' '), inTitle = words.every(word => title.includes(word));
    return (title === whole ? 8 : title.startsWith(whole) ? 6 : inTitle ? 4 : 2) + section.location.startsWith('reference/');
  }

  function excerpt(section, word) {
    const at = Math.max(0, section.text.toLowerCase().indexOf(word) - 60);
    return (at ? '\u2026' : '') + section.text.slice(at, at + 200);
  }

  function show(sections) {
    const words = field.value.toLowerCase().split(/\s+/).filter(word => word);
    const found = !words.length ? [] : sections.map(section => [worth(section, words), section]).filter(([points]) => points)
      .sort(([a, x], [b, y]) => b - a || x.title.length - y.title.length);
    list.replaceChildren(made('p', words.length ? `${found.length} found` : 'Type a name or a word.'));
    for (const [, section] of found.slice(0, 50)) {
      const page = section.location.replace(/\.html#.*/, '');
      list.append(made('h3', ''), made('p', `${page}: ${excerpt(section, words[0])}`));
      list.lastChild.previousSibling.append(made('a', section.title, {href: section.location}));
    }
  }

  field.form.addEventListener('submit', event => event.preventDefault()); // it is all there as it is typed
  field.value = new URLSearchParams(location.search).get('q') || '';
  document.head.append(made('script', '', {src: 'search/search_index.js', onload: () => {
    const sections = window.search_index.docs.filter(section => section.location.includes('#'));
    field.addEventListener('input', () => show(sections));
    show(sections);
  }}));
})();
