// SPDX-License-Identifier: Apache-2.0

import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

// The pages are the Markdown files in docs/, as a reader of the repository sees them too.
const root = fileURLToPath(new URL('../..', import.meta.url))
const source = 'https://github.com/wayleave/wayleave/blob/main/'

// groups has all pages, in the order of the sidebar. The build fails if a page is missing here.
const groups: Record<string, string[]> = {
  Start: ['get-started', 'faq', 'migrate', 'migrate-felix', 'migrate-kube-router', 'migrate-kube-network-policies'],
  'Run it': [
    'agent', 'troubleshooting', 'kubernetes', 'cluster', 'datastore', 'fleet', 'wireguard', 'bridges', 'kernels',
  ],
  'Embed it': ['cni', 'policy-engine', 'dataplane', 'wire', 'felix', 'policysync'],
  'How it works': ['design', 'semantics', 'nft', 'routes', 'glossary', 'stability'],
  'How it is tested': ['conformance', 'performance', 'comparison', 'benchmarks', 'mutants'],
}

const listed = new Set(Object.values(groups).flat())
for (const file of readdirSync(root + 'docs')) {
  const name = file.replace(/\.md$/, '')
  if (file.endsWith('.md') && name !== 'index' && !listed.has(name)) {
    throw new Error(`docs/${file} is in no group of docs/.vitepress/config.mts`)
  }
}

// title returns the heading of a page.
function title(name: string): string {
  return readFileSync(`${root}docs/${name}.md`, 'utf8').match(/^# (.*)$/m)![1]
}

// menu has the groups, for the sidebar and for the top of each page: the home page has no sidebar.
const menu = Object.entries(groups).map(([text, pages]) => ({
  text,
  items: pages.map(name => ({ text: title(name), link: '/' + name })),
}))

// linkSources lets links from a page to a file outside of docs/ lead to the repository.
function linkSources(md: any) {
  md.core.ruler.push('link_sources', (state: any) => {
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        const href = token.type === 'link_open' && token.attrGet('href')
        if (!href || !href.startsWith('../')) continue
        const [path, anchor] = posix.join('docs', href).split('#')
        if (!existsSync(root + path)) throw new Error(`${state.env.path}: no file ${path}`)
        token.attrSet('href', source + path + (anchor ? '#' + anchor : ''))
      }
    }
  })
}

// anchor returns the anchor of a heading as GitHub makes it, so that links work there, too. TestLinksHaveTargets has
// the same rule.
function anchor(heading: string): string {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')
}

// joinUnits keeps a value and its unit on one line.
function joinUnits(md: any) {
  md.core.ruler.push('join_units', (state: any) => {
    for (const block of state.tokens) {
      for (const token of block.children ?? []) {
        if (token.type !== 'text') continue
        token.content = token.content.replace(/(\d) (?=([nµm]?s|[KMG]i?B|B|GHz|min|h|days?|a second)\b)/g, '$1\u00a0')
      }
    }
  })
}

// maxWhole is the length of the longest code in a sentence that is not broken. It fits on a phone.
const maxWhole = 32

// breakCode breaks code in a sentence or a table only if it is long: between words, and within a long word after
// punctuation or before a capital. A browser alone would break --init after its hyphens, and a Go name nowhere.
function breakCode(md: any) {
  const { escapeHtml } = md.utils
  const render = md.renderer.rules.code_inline
  const whole = (text: string) => `<span class="whole">${escapeHtml(text)}</span>`
  const inParts = (word: string) =>
    word.split(/(?<=[_./=,:])|(?<=[\p{Ll}\d])(?=\p{Lu})/u).map(escapeHtml).join('<wbr>')
  md.renderer.rules.code_inline = (tokens: any, i: number, ...rest: any) => {
    const { content } = tokens[i]
    const words = content.length <= maxWhole ? [content] : content.split(' ')
    const html = render(tokens, i, ...rest)
    return html.slice(0, html.indexOf('>') + 1) +
      words.map((word: string) => word.length <= maxWhole ? whole(word) : inParts(word)).join(' ') + '</code>'
  }
}

// wrapOutput lets the lines of a text block wrap if one has more than 120 columns. Only program output has such lines.
function wrapOutput(md: any) {
  const render = md.renderer.rules.fence
  md.renderer.rules.fence = (tokens: any, i: number, ...rest: any) => {
    const html = render(tokens, i, ...rest)
    const long = tokens[i].info === 'text' && /.{121}/u.test(tokens[i].content)
    return long ? html.replace('class="language-text', '$& wrap') : html
  }
}

export default defineConfig({
  title: 'Wayleave',
  description: 'Network policy, endpoints and nodes become nftables rules and routes. A library in Go.',
  lang: 'en',
  outDir: '../bin/site',
  cacheDir: '../bin/site-cache',
  cleanUrls: true,
  metaChunk: true,
  markdown: {
    config: md => [linkSources, joinUnits, breakCode, wrapOutput].forEach(use => use(md)),
    anchor: { slugify: anchor },
  },
  themeConfig: {
    outline: [2, 4],
    search: { provider: 'local' },
    nav: menu,
    sidebar: menu,
    socialLinks: [{ icon: 'github', link: 'https://github.com/wayleave/wayleave' }],
    notFound: { quote: 'The menu and the search have all pages.', linkText: 'Go to the home page' },
    footer: { message: 'Apache-2.0' },
  },
})
