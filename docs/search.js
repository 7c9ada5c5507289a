/* The search of the pages that docs/build.sh builds. mkdocs writes a list of the sections. Its own search fetches that list,
 * which a page of a folder (file://) cannot do, so here the list is a script. Any part of a name finds it, such as "append". */
(() => {
  const list = document.getElementById('mkdocs-search-results'), field = document.getElementById('mkdocs-search-query');
  if (!list) return; // another page: its search field leads to this page
  const made = (tag, text, more) => Object.assign(document.createElement(tag), {textContent: text}, more);

  /* Rank of a section; 0: a word is missing. The title counts most, and the reference more than other pages. */
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

  field.form.addEventListener('submit', event => event.preventDefault()); // results appear while the user types
  field.value = new URLSearchParams(location.search).get('q') || '';
  document.head.append(made('script', '', {src: 'search/search_index.js', onload: () => {
    const sections = window.search_index.docs.filter(section => section.location.includes('#'));
    field.addEventListener('input', () => show(sections));
    show(sections);
  }}));
})();
