// SPDX-License-Identifier: Apache-2.0

import { existsSync, readdirSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

// The pages are the Markdown files in docs/, as a reader of the repository sees them too.
const root = fileURLToPath(new URL('../..', import.meta.url))
const source = 'https://github.com/wayleave/wayleave/blob/main/'

// groups has all pages, in the order of the sidebar. The build fails if a page is missing here.
const groups: Record<string, Record<string, string>> = {
  Start: {
    'get-started': 'Get started',
    faq: 'Questions',
    migrate: 'Migrate',
    'migrate-felix': 'From Felix',
    'migrate-kube-router': 'From kube-router',
    'migrate-kube-network-policies': 'From kube-network-policies',
  },
  'Run it': {
    agent: 'The agent',
    troubleshooting: 'Troubleshooting',
    kubernetes: 'Kubernetes',
    cluster: 'A cluster on one machine',
    datastore: 'etcd and other sources',
    fleet: 'Many nodes',
    wireguard: 'WireGuard',
    bridges: 'Pods on bridges',
    kernels: 'Kernels',
  },
  'Embed it': {
    cni: 'In a CNI plugin',
    'policy-engine': 'In a policy engine',
    dataplane: 'Write a dataplane',
    wire: 'A dataplane in another process',
    felix: 'A driver written for Felix',
    policysync: 'Policy in a sidecar',
  },
  'How it works': {
    design: 'Design',
    semantics: 'Verdicts',
    nft: 'nftables',
    routes: 'Routes',
    glossary: 'Glossary',
    stability: 'Versions',
  },
  'How it is tested': {
    conformance: 'Conformance',
    performance: 'Performance',
    comparison: 'Comparison',
    benchmarks: 'Benchmarks',
    mutants: 'Mutants',
  },
}

const listed = new Set(Object.values(groups).flatMap(pages => Object.keys(pages)))
for (const file of readdirSync(root + 'docs')) {
  const name = file.replace(/\.md$/, '')
  if (file.endsWith('.md') && name !== 'index' && !listed.has(name)) {
    throw new Error(`docs/${file} is in no group of docs/.vitepress/config.mts`)
  }
}

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

export default defineConfig({
  title: 'Wayleave',
  description: 'Network policy, endpoints and nodes become nftables rules and routes. A library in Go.',
  lang: 'en',
  outDir: '../bin/site',
  cacheDir: '../bin/site-cache',
  cleanUrls: true,
  metaChunk: true,
  // On a phone, the text of a picture would be too small: the picture keeps its size, and scrolls.
  head: [['style', {}, '@media (max-width: 640px) { .vp-doc p:has(> img) { overflow-x: auto } ' +
    '.vp-doc p > img { max-width: none; width: 620px } }']],
  markdown: { config: linkSources, anchor: { slugify: anchor } },
  themeConfig: {
    outline: [2, 3],
    search: { provider: 'local' },
    sidebar: Object.entries(groups).map(([text, pages]) => ({
      text,
      items: Object.entries(pages).map(([name, title]) => ({ text: title, link: '/' + name })),
    })),
    socialLinks: [{ icon: 'github', link: 'https://github.com/wayleave/wayleave' }],
    footer: { message: 'Apache-2.0' },
  },
})
